"""Policies compose: a toy beside those of the engine, and the modes skip, pass and evaluate in probes and scans."""

from __future__ import annotations

import sys
from itertools import pairwise, product

import numpy as np
import pytest

from eddyline import Session
from eddyline.errors import SettingProblem
from eddyline.operators.join.commons import Commons
from eddyline.operators.join.demand.policy import Demand
from eddyline.operators.join.group import JoinConfig, JoinGroup
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.policy import JoinPolicy
from eddyline.operators.join.probing.modes import EVALUATE, SKIP, Grid, Modes, Probe
from eddyline.operators.join.punctuations.policy import Punctuations
from eddyline.operators.join.registry import ALLOWED
from eddyline.operators.join.sharing.last_probes import LastProbes
from eddyline.operators.join.sharing.shared_probes import ShareFirstProbes
from eddyline.settings import Settings
from eddyline.tuning import SchedulingTuning, SharingTuning, Tuning
from tests.operators.hopeless import HOPELESS, Hopeless
from tests.seeds import some

TUNING = Tuning(scheduling=SchedulingTuning(least_rows=1, least_batch=2), sharing=SharingTuning(many_queries=4))


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may import the policies of these tests."""
    names = ["tests.operators.hopeless:hopeless", "tests.operators.hopeless:nothing"]
    names += [f"tests.operators.test_policies:{name}" for name in globals()]
    monkeypatch.setenv(ALLOWED, ",".join(names))


def test_a_name_that_only_settings_hold_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings lie in the layouts of Spark jobs: a planted name runs nothing."""
    monkeypatch.delenv(ALLOWED)
    with pytest.raises(SettingProblem, match="is not allowed"):
        answered(pairs(1), ("antigravity:fly",))
    assert "antigravity" not in sys.modules


def answered(
    queries: dict[str, str], policies: tuple[str, ...], **options: str
) -> tuple[dict[str, list[str]], dict[str, object], list[JoinGroup]]:
    """Rows of a and b with keys that meet, and a third of hopeless ones."""
    rng = np.random.default_rng(7)
    with Session(Settings(policies=policies, tuning=TUNING)) as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        for name, sql in queries.items():
            mine = (
                options if name in TRIPLES else {option: value for option, value in options.items() if option != "plan"}
            )
            session.query(name, sql, **{"replan": "off", **mine})
        for epoch in range(4):
            for place, name in enumerate("abc"):
                times = np.sort(rng.integers(0, 1_000_000, 90)) + epoch * 1_000_000
                keys = np.where(
                    rng.random(90) < 0.33, HOPELESS * (place + 1) + rng.integers(0, 5, 90), rng.integers(0, 8, 90)
                )
                session.push(
                    name, [(int(k), int(rng.integers(0, 100)), int(ts)) for k, ts in zip(keys, times, strict=True)]
                )
            session.step()
        session.run(once=True)
        groups = list(session.pipeline.groups.values())
        found = {name: sorted(map(str, session.queries[name].table().to_pylist())) for name in queries}
        return found, session.stats(), groups


def pairs(count: int, where: str = "") -> dict[str, str]:
    text = "SELECT a.v AS x, b.v AS y FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k" + where
    return {f"q{n}": text.format(n % 3 + 1) for n in range(count)}


TRIPLES = {
    "t": "SELECT a.v AS x, c.v AS y FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND], c [ROWS 50] WHERE a.k = b.k AND b.k = c.k"
}
#: Two joins over the same streams, which differ in a condition: their groups make first probes together.
BESIDE = {**TRIPLES, "q": "SELECT a.v AS x, b.v AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"}
BESIDE["r"] = BESIDE["q"] + " AND a.v <= b.v + 1000"


@pytest.mark.parametrize("scheduler", ["lwo", "swf", "mqt"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_toy_policy_with_schedules_and_many_queries(count: int, scheduler: str) -> None:
    plain, before, _ = answered(pairs(count), (), scheduler=scheduler)
    found, after, groups = answered(pairs(count), ("tests.operators.hopeless:hopeless",), scheduler=scheduler)
    assert found == plain and all(plain.values())
    left_out = sum(policy.left_out for group in groups if (policy := group.policy(Hopeless)) is not None)
    assert left_out > 100
    assert before["probes"] - after["probes"] == left_out


@pytest.mark.parametrize(
    ("jit", "plan", "route"),
    some(product(("off", "exact", "bloom", "auto"), ("mjoin", "((a b) c)", "(a (b c))"), ("fixed", "lottery"))),
)
def test_a_toy_policy_beside_demand_shared_probes_and_the_lottery(jit: str, plan: str, route: str) -> None:
    plain, _, _ = answered(BESIDE, (), jit="off")
    options = {"jit": jit, "route": route, "plan": plan}
    found, stats, groups = answered(BESIDE, ("tests.operators.hopeless:hopeless",), **options)
    assert found == plain and all(plain.values())
    assert all(group.policy(Hopeless).left_out > 100 for group in groups)
    assert route == "lottery" or plan == "(a (b c))" or stats["probes_shared"] > 0


class Striped(JoinPolicy):
    """Skips and passes what it knows of keys: rows in stretches of seven, stored rows in stretches of five."""

    def __init__(self) -> None:
        self.cells = {SKIP: 0, EVALUATE: 0, 1: 0}

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        store, step = node.inputs[probe.step.input].store, probe.step
        if len(step.probe_keys) != 1 or not store.live:
            return None
        rows = np.append(np.arange(0, len(probe.rows), 7), len(probe.rows))
        stored = np.append(np.arange(store.first, store.end, 5), store.end)
        mine, theirs = probe.hashes, store.column(step.index or "")
        low, high = (np.array([f(mine[a:b]) for a, b in pairwise(rows)]) for f in (np.min, np.max))
        least, most = (
            np.array([f(theirs[a - store.first : b - store.first]) for a, b in pairwise(stored)])
            for f in (np.min, np.max)
        )
        kinds = np.where((high[:, None] < least) | (low[:, None] > most), SKIP, EVALUATE)
        kinds[(kinds == EVALUATE) & (rows[:-1, None] % 2 == 0)] = 1
        for kind in self.cells:
            self.cells[kind] += int((kinds == kind).sum())
        # Every v is below 100, so that the conditions of the query hold everywhere.
        return Modes(Grid(rows, stored, kinds, (frozenset(step.conditions),)))


def striped(config: JoinConfig, commons: Commons) -> JoinPolicy:
    return Striped()


@pytest.mark.parametrize("probe", ["hash", "loop"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_modes_are_honoured_in_probes_scans_and_schedules(count: int, probe: str) -> None:
    queries = pairs(count, " AND a.v + b.v < 1000")
    plain, before, _ = answered(queries, (), probe=probe)
    found, after, groups = answered(queries, (f"{__name__}:striped",), probe=probe)
    assert found == plain and all(plain.values())
    (policy,) = [group.policy(Striped) for group in groups]
    assert policy is not None and all(policy.cells.values())
    if probe == "loop" and count == 1:
        assert after["visited"] < before["visited"]


class Wrong(JoinPolicy):
    """Says of everything what a test wants to see honoured, true or not."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def mode(self, node: JoinNode, probe: Probe) -> Modes | None:
        store = node.inputs[probe.step.input].store
        ends = np.array([0, len(probe.rows)]), np.array([store.first, store.end])
        return Modes(Grid(*ends, np.full((1, 1), self.kind), (frozenset(probe.step.conditions),)))


def skipping(config: JoinConfig, commons: Commons) -> JoinPolicy:
    return Wrong(SKIP)


def passing(config: JoinConfig, commons: Commons) -> JoinPolicy:
    return Wrong(1)


@pytest.mark.parametrize("probe", ["hash", "loop"])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_what_is_skipped_is_not_probed_and_what_is_passed_is_not_tested(count: int, probe: str) -> None:
    never, always = pairs(count, " AND a.v + b.v < 0"), pairs(count)
    assert not any(answered(always, (f"{__name__}:skipping",), probe=probe)[0].values())
    assert not any(answered(never, (), probe=probe)[0].values())
    assert answered(never, (f"{__name__}:passing",), probe=probe)[0] == answered(always, (), probe=probe)[0]


def test_two_grids_as_one() -> None:
    a = Grid(np.array([0, 4, 8]), np.array([10, 20]), np.array([[SKIP], [1]]), (frozenset(),))
    b = Grid(np.array([0, 6, 8]), np.array([10, 15, 20]), np.array([[EVALUATE, 1], [SKIP, EVALUATE]]), (frozenset(),))
    whole = a.over(b)
    for row in range(8):
        for stored in range(10, 20):
            x, y = (int(one.at(np.array([row]), np.array([stored]))[0]) for one in (a, b))
            kind = int(whole.at(np.array([row]), np.array([stored]))[0])
            assert (kind == SKIP) == (SKIP in (x, y))
            assert kind == SKIP or (kind > EVALUATE) == (max(x, y) > EVALUATE)


def test_a_policy_that_is_not_there() -> None:
    with pytest.raises(SettingProblem, match="there is no policy"):
        answered(pairs(1), ("tests.operators.hopeless:nothing",))


class Resting(Wrong):
    """Would skip everything, but has nothing to decide."""

    is_idle = True


def resting(config: JoinConfig, commons: Commons) -> JoinPolicy:
    return Resting(SKIP)


def test_a_policy_that_is_idle_is_not_polled() -> None:
    plain, _, _ = answered(pairs(2), ())
    found, _, _ = answered(pairs(2), (f"{__name__}:resting",))
    assert found == plain and all(plain.values())


def polled(group: JoinGroup, kind: type[JoinPolicy]) -> bool:
    """Whether nodes call the policy of a kind."""
    policy = group.policy(kind)
    assert policy is not None
    return any(policy in (*node._admitting, *node._moding, *node._putting_out) for node, _ in group.nodes)


def test_policies_are_idle_where_they_have_nothing_to_decide() -> None:
    """Two streams have no inner node, three queries are not many, and one group shares no probe."""
    _, _, [group] = answered(pairs(3), ())
    assert not any(polled(group, kind) for kind in (Demand, LastProbes, ShareFirstProbes))
    _, _, [group] = answered(pairs(4), ())
    assert polled(group, LastProbes) and not polled(group, Demand)
    _, _, groups = answered(BESIDE, (), plan="((a b) c)")
    assert [polled(group, Demand) for group in groups] == [True, False, False]
    assert all(polled(group, ShareFirstProbes) for group in groups)


def test_groups_that_cease_to_share_their_first_probes_poll_for_them_no_longer() -> None:
    with Session(Settings()) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", BESIDE["q"])
        session.query("r", BESIDE["r"])
        groups = list(session.pipeline.groups.values())
        assert len(groups) == 2 and all(polled(group, ShareFirstProbes) for group in groups)
        session.drop("r")
        session.step()
        [group] = session.pipeline.groups.values()
        assert not polled(group, ShareFirstProbes)


def test_a_group_polls_the_policy_of_promises_from_the_first_promise_on() -> None:
    with Session(Settings()) as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query("q", BESIDE["q"])
        [group] = session.pipeline.groups.values()
        closings = group.policy(Punctuations).closings  # type: ignore[union-attr]
        assert not polled(group, Punctuations) and all(base.port.refuses is None for base in group.bases.values())
        # A group that goes waits for no promise any more.
        session.query("r", BESIDE["r"])
        assert len(closings.on_first) == 2
        session.drop("r")
        session.step()
        assert len(closings.on_first) == 1
        session.push("a", [(1, 2, 1_000_000)])
        session.punctuate("b", "k = 1")
        session.push("a", [(1, 3, 2_000_000)])
        session.push("b", [(2, 3, 3_000_000)])
        session.step()
        assert polled(group, Punctuations) and all(base.port.refuses is not None for base in group.bases.values())
        assert group._ending_epochs and not closings.on_first
        # Queries that come later find a promise.
        session.query("s", BESIDE["r"])
        assert all(polled(group, Punctuations) for group in session.pipeline.groups.values())
