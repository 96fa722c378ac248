"""The parts of just-in-time joins by themselves: which inputs a node asks, and which combinations are stored
already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from eddyline import Session
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.demand.conditions import Conditions
from eddyline.operators.join.demand.control import targets_of
from eddyline.operators.join.demand.edge import Edge, EdgeSample, spread
from eddyline.operators.join.demand.holding import HoldingBack
from eddyline.operators.join.demand.stored import not_stored
from eddyline.operators.join.group import JoinGroup
from eddyline.tuning import DemandTuning


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as made:
        made.set("plan", "((a b) (c d))")
        made.set("jit", "exact")
        for name in "abcd":
            made.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', format = 'memory')")
        made.execute(
            "CREATE QUERY q AS SELECT a.k AS k FROM a [RANGE 60 SECONDS], b [RANGE 60 SECONDS], c [RANGE 60 SECONDS], d [RANGE 60 SECONDS] "
            "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
        )
        yield made


def group_of(session: Session) -> JoinGroup:
    (group,) = [one for one in session.pipeline.groups.values() if isinstance(one, JoinGroup)]
    return group


@pytest.mark.parametrize(
    ("control", "first", "second"),
    [
        ("probes", [(2,), (3,)], [(0,), (1,)]),
        ("one-sided", [], [(0, 1)]),
        ("chain", [(2,), (3,)], [(0, 1)]),
        ("auto", [(2,), (3,)], [(0, 1)]),
    ],
)
def test_a_node_asks_only_stores_that_are_complete(
    session: Session, control: str, first: list[object], second: list[object]
) -> None:
    """(a b) is made before (c d): only (c d) may ask the store of its sibling."""
    group = group_of(session)
    assert [node.references for node, _ in group.nodes] == [(0, 1), (2, 3), (0, 1, 2, 3)]
    found = targets_of(group.nodes, group.bases, control)
    assert {number: [one.references for one in asked] for number, asked in found.items()} == {0: first, 1: second}


def filled(session: Session, seconds: range) -> None:
    for name in "abcd":
        session.push(name, [(second % 2, second * 1_000_000) for second in seconds])
    session.step()


def test_nothing_is_demanded_while_an_opposite_input_is_empty(session: Session) -> None:
    group = group_of(session)
    node, _ = group.nodes[0]
    conditions = Conditions(node, (group.bases[2], group.bases[3]), bloomed=False)
    # b.k = c.k and c.k = d.k: the node shares a key with both.
    assert [one.opposite.references for one in conditions.all] == [(2,), (3,)] and not conditions.unlinked
    assert conditions.nothing_opposite()
    filled(session, range(4))
    assert not conditions.nothing_opposite()


def test_a_combination_is_stored_once(session: Session) -> None:
    filled(session, range(4))
    filled(session, range(4, 8))
    kept = next(one for _, one in group_of(session).nodes if one is not None and one.store.live)
    ids = kept.ids()
    held = kept.expand(ids)
    assert len(ids) > 3

    def made(components: dict[int, np.ndarray]) -> Combinations:
        rows = len(next(iter(components.values())))
        return Combinations(components, np.arange(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64), None)

    assert len(not_stored(kept, made(held))) == 0
    # A pair that the keys forbid is not there; twice the same one is one.
    first, second = sorted(held)
    strange = {first: np.array([0, 0, *held[first]]), second: np.array([1, 1, *held[second]])}
    found = not_stored(kept, made(strange))
    assert [(int(found.ids[first][i]), int(found.ids[second][i])) for i in range(len(found))] == [(0, 1)]


@pytest.mark.parametrize(("size", "most"), [(0, 4), (3, 4), (4, 4), (5, 4), (1000, 7)])
def test_a_sample_is_spread_from_the_first_row_to_the_last(size: int, most: int) -> None:
    found = spread(size, most)
    assert len(found) == min(size, most) and len(np.unique(found)) == len(found)
    assert not size or (found[0], found[-1]) == (0, size - 1)


def sample(refused: list[bool], expected: float = 1e6) -> EdgeSample:
    """Half as many new rows as combinations; one condition, whose opposite input has nothing new."""
    return EdgeSample(int(expected / 2), expected, np.array([refused]), [(0, 0.0)], [], DemandTuning())


def test_an_edge_listens_to_what_refuses_much_and_stops_when_it_refuses_nothing() -> None:
    edge = Edge(True, False, DemandTuning())
    assert edge.weigh(sample([False] * 20), []) == [] and not edge.listens
    assert edge.weigh(sample([True] * 19 + [False]), []) == [0] and edge.listens
    assert edge.per_row == 2.0
    assert edge.weigh(sample([False] * 20), [0]) == [] and not edge.listens
    assert edge.switches == 2


def test_an_edge_that_nothing_changes_is_sampled_ever_more_rarely() -> None:
    tuning = DemandTuning()
    edge = Edge(True, False, tuning)
    sampled = []
    for epoch in range(1, 300):
        if edge.is_sample_due():
            sampled.append(epoch)
            edge.weigh(sample([False] * 20), [])
    gaps = np.diff(sampled).tolist()
    assert gaps == sorted(gaps) and gaps[0] == 1 and gaps[-1] == tuning.longest_pause


def test_an_edge_gives_up_when_it_makes_later_all_that_it_held_back() -> None:
    tuning = DemandTuning()
    edge = Edge(True, True, tuning)
    edge.marks = edge.resumptions = edge.produced = 100 * tuning.enough
    assert edge.gives_up(checks=300 * tuning.enough, conditions=1) and not edge.listens
    edge = Edge(True, True, tuning)
    edge.marks, edge.produced = 1000 * tuning.enough, tuning.enough
    assert not edge.gives_up(checks=1001 * tuning.enough, conditions=1) and edge.listens


def test_rows_that_are_held_back_are_counted_until_their_combinations_are_made(session: Session) -> None:
    group = group_of(session)
    filled(session, range(4))
    session.step()
    node, kept = group.nodes[0]
    assert kept is not None
    holding = HoldingBack(node, Edge(False, True, DemandTuning()), Conditions(node, (group.bases[2],), False))
    rows = group.bases[0].fresh(group.bases[0].store.first, group.bases[0].store.end)
    # No row of c has these keys: all rows of a are held back.
    group.bases[2].store.drop(group.bases[2].store.ids())
    assert len(holding.admit(0, rows)) == 0
    holding.count()
    assert holding.edge.suspended_peak == len(rows) == 3 and holding.edge.suspensions == 3
    holding.resumed(rows.part(0, 2))
    assert holding._rows[0].tolist() == rows.ids[0][2:].tolist()
