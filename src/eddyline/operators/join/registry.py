"""Which policies a join group has: the one place where policies are registered.

Answer   `policies_for` gives the policies of a group in the order in which its nodes ask them: further ones that the
         settings name, then those of the engine.
State    None. Objects that several groups share lie in `Commons`.
Limits   A policy that is deleted leaves with its folder, its setting and its line in `POLICIES`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping

from eddyline.errors import SettingProblem
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.demand.policy import demand
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.punctuations.policy import punctuations
from eddyline.operators.join.routing.lottery import lottery_route
from eddyline.operators.join.scheduling.policy import shared_schedules
from eddyline.operators.join.sharing.last_probes import last_probes
from eddyline.operators.join.sharing.shared_probes import shared_probes
from eddyline.operators.join.zones.policy import zone_skipping
from eddyline.operators.stream.stream import StreamState

#: The environment variable with the names (module:function, separated by commas) of further policies that this process
#: may import.
ALLOWED = "EDDYLINE_POLICIES"
#: Makes the policy of one group; None: the group's settings switch it off.
PolicyFactory = Callable[[JoinConfig, Commons], JoinPolicy | None]

#: In the order in which nodes ask them.
POLICIES: tuple[PolicyFactory, ...] = (
    punctuations,
    lottery_route,
    demand,
    zone_skipping,
    shared_probes,
    last_probes,
    shared_schedules,
)


def join_group(config: JoinConfig, streams: Mapping[str, StreamState], issues: Issues, commons: Commons) -> JoinGroup:
    """The group of a configuration, with the policies that its settings ask for."""
    return JoinGroup(config, streams, issues, policies_for(config, commons))


def policies_for(config: JoinConfig, commons: Commons) -> tuple[JoinPolicy, ...]:
    factories = (*(_named(name) for name in config.settings.policies), *POLICIES)
    return tuple(policy for make in factories if (policy := make(config, commons)) is not None)


def _named(name: str) -> PolicyFactory:
    if name not in os.environ.get(ALLOWED, "").split(","):
        # Settings lie in shared folders too, and no name that stands there alone is imported.
        raise SettingProblem(
            f"policy {name} is not allowed", hint=f"the environment variable {ALLOWED} lists what a process may import"
        )
    module, _, function = name.partition(":")
    try:
        found: PolicyFactory = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as problem:
        raise SettingProblem(
            f"there is no policy {name}", detail=str(problem), hint="module:function of a PolicyFactory"
        ) from None
    return found
