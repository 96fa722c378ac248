"""Shared schedules as a policy of a group: which window is served next, and results released before the slice is done.

Answer   At the point *schedule*, a way to work the group off in portions, where its members have several windows.
State    None: a schedule has its own, until a query comes or goes.
Reading  docs/operators/scheduling.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.operators.join.commons import Commons
from eddyline.operators.join.policy import JoinPolicy, Schedule
from eddyline.operators.join.scheduling.release import shared_schedule
from eddyline.settings import Settings
from eddyline.tuning import Tuning

if TYPE_CHECKING:
    from eddyline.operators.join.group import JoinConfig, JoinGroup


def shared_schedules(config: JoinConfig, commons: Commons) -> JoinPolicy | None:
    return SharedScheduling(config.settings.tuning)


class SharedScheduling(JoinPolicy):
    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning

    def schedule(self, group: JoinGroup, settings: Settings) -> Schedule | None:
        return shared_schedule(group, settings.scheduler, self.tuning)
