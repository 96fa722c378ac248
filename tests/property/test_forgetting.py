"""Rows that no answer needs leave the stores from the middle: answers unchanged.

Answer   A case runs twice. The first run writes down, per reference, in which epoch each row last took part in a
         result. In the second run, after every epoch, each reference releases some of the rows that it will not need
         again; a row that all references of a stream have released is dropped. Stores close their gaps as soon as half
         of the rows are gone.
Limits   What a row is needed for is what the engine itself did with it; the results of both runs are compared with the
         oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pytest

from eddyline import Session
from eddyline.operators.expressions.evaluate import Issues
from eddyline.operators.join.combination import Combinations
from eddyline.runtime.engine import forgetting
from eddyline.runtime.engine.registered.aggregate import AggregateQuery
from eddyline.runtime.engine.registered.query import RegisteredQuery, SelectQuery
from eddyline.runtime.engine.units.join_results import JoinResults
from eddyline.settings import Settings
from eddyline.state.columns import Ints
from eddyline.tuning import StateTuning, Tuning
from tests.property.cliques import CONTROLS, clique_case, under
from tests.property.compare import Outcome, check_case
from tests.property.embedded import run_embedded
from tests.property.specs import Case
from tests.property.strategies import random_case
from tests.property.test_aggregates import Blocks, restarted
from tests.property.test_migration import replant_some, spill_some
from tests.seeds import cases, first_seed

BLOCK = 25
BLOCKS = cases(4, soak=6)
FIRST = first_seed(900_000)

#: Stores close their gaps as soon as half of their rows are gone, however few they are.
HASTY = Settings(tuning=Tuning(state=StateTuning(least_dropped=1)))
#: (join group, reference) to the epoch in which each row of its stream, by its number of arrival, last took part in a
#: result.
Needs = dict[tuple[str, int], dict[int, int]]


@dataclass
class Forgetful:
    """Runs a case twice, and lets rows go in the second run."""

    monkeypatch: pytest.MonkeyPatch
    dropped: int = 0
    compactions: int = 0
    epoch: int = 0
    needs: Needs = field(default_factory=dict)
    is_first: bool = True

    def __post_init__(self) -> None:
        for kind in (SelectQuery, AggregateQuery):
            self.monkeypatch.setattr(kind, "accept", self._noting(kind.accept))
        # The first run sees the rows of all references, whatever the SELECT lists read.
        self.monkeypatch.setattr(JoinResults, "changed", self._reading(JoinResults.changed))

    def _reading(self, changed: Callable[[JoinResults], None]) -> Callable[[JoinResults], None]:
        def reading(results: JoinResults) -> None:
            changed(results)
            results._reads = None if self.is_first else results._reads

        return reading

    def _noting(self, accept: Callable[..., list[object]]) -> Callable[..., list[object]]:
        def noted(query: RegisteredQuery, rows: Combinations, issues: Issues) -> list[object]:
            mine = query.mine(rows)
            for position, ids in mine.ids.items():
                base = query.group.bases[position]
                if not base.stream.is_table:
                    needed = self.needs.setdefault((query.group.config.name, position), {})
                    needed |= dict.fromkeys(base.store.at("arrival", ids).tolist(), self.epoch)
            return accept(query, rows, issues)

        return noted

    def run(self, case: Case, rng: Random, between: Callable[[Session], object] = lambda _: None) -> Outcome:
        self.epoch, self.needs, self.is_first = 0, {}, True
        check_case(case, lambda case: run_embedded(case, self._next, HASTY))
        needs, self.epoch, self.needs, self.is_first = self.needs, 0, {}, False

        def after(session: Session) -> None:
            self._next(session)
            self._release(session, needs, rng)
            between(session)

        return run_embedded(case, after, HASTY)

    def _next(self, _: Session) -> None:
        self.epoch += 1

    def _release(self, session: Session, needs: Needs, rng: Random) -> None:
        names = {
            base.port: (group.config.name, r)
            for group in session.pipeline.groups.values()
            for r, base in group.bases.items()
        }
        part = rng.choice((0.3, 0.7, 1.0))
        for stream in session.pipeline.stores():
            for port in tuple(stream.ports):
                ids = stream.store.ids()
                last = needs.get(names[port], {})
                free = [
                    last.get(number, -1) < self.epoch and rng.random() < part
                    for number in stream.store.at("arrival", ids).tolist()
                ]
                self.dropped += stream.release(port, ids[np.array(free, np.bool_)])
        before = sum(stream.store.generation for stream in session.pipeline.stores())
        forgetting.close_gaps(session.pipeline)
        self.compactions += sum(stream.store.generation for stream in session.pipeline.stores()) - before


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Forgetful:
    return Forgetful(monkeypatch)


def check(forgetful: Forgetful, case: Case, seed: int, between: Callable[[Session], object] = lambda _: None) -> None:
    try:
        check_case(case, lambda case: forgetful.run(case, Random(seed), between))
    except Exception as problem:
        raise AssertionError(f"seed {seed}") from problem


@pytest.mark.property
@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_that_no_answer_needs_may_leave(block: int, forgetful: Forgetful) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        check(forgetful, random_case(Random(seed)), seed)
    assert forgetful.dropped > BLOCK


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(3)))
def test_rows_leave_while_demand_holds_others_back(block: int, forgetful: Forgetful) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        case = clique_case(Random(10_000 + seed))
        check(forgetful, under(case, jit=("exact", "bloom")[seed % 2], jit_control=CONTROLS[seed // 2 % 4]), seed)
    assert forgetful.dropped > BLOCK and forgetful.compactions


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(2)))
def test_rows_leave_between_restarts(block: int, forgetful: Forgetful) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        blocks, rng = Blocks(), Random(seed)
        check(
            forgetful,
            random_case(Random(20_000 + seed)),
            seed,
            lambda s, b=blocks, r=rng: restarted(s, b) if r.random() < 0.6 else None,
        )
    assert forgetful.dropped > BLOCK and forgetful.compactions


@pytest.mark.property
@pytest.mark.parametrize("block", range(cases(2)))
def test_rows_leave_stores_on_disk_and_under_changing_trees(block: int, forgetful: Forgetful, tmp_path: Path) -> None:
    for seed in range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK):
        rng = Random(seed)

        def between(session: Session, rng: Random = rng) -> None:
            replant_some(session, rng)
            spill_some(session, rng, tmp_path)

        check(forgetful, random_case(Random(30_000 + seed)), seed, between)
    assert forgetful.dropped > BLOCK


def test_a_query_that_goes_takes_its_rows_along() -> None:
    """Rows that only the query wanted that has gone leave from among those of others."""
    with Session() as session:
        session.execute("CREATE STREAM a (k BIGINT, n BIGINT, ts TIMESTAMP) WITH (time='ts')")
        session.execute("CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        text = "SELECT a.n FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k AND a.n % 10 {}"
        few = session.query("few", text.format("= 0"))
        session.query("many", text.format("> 0"))
        session.push("a", [(n % 7, n, n) for n in range(2000)])
        session.push("b", [(9, 3000)])
        session.step()
        store = next(stream.store for stream in session.pipeline.stores() if stream.name == "a")
        assert store.live == 1999
        session.drop("many")
        session.push("a", [(9, 1, 4000)])
        session.push("b", [(9, 4000)])
        session.step()
        assert store.live == 200 and store.generation == 1
        session.push("a", [(3, 5000, 5000)])
        session.push("b", [(3, 5000)])
        session.run(once=True, final=False)
        ids: Ints = store.ids()
        assert sorted(few.table().column("n").to_pylist()) == [*(n for n in range(0, 2000, 10) if n % 7 == 3), 5000]
        assert store.gather("n", ids).to_pylist() == [*range(0, 2000, 10), 5000]


def test_rows_windows_do_not_reach_further_back_when_rows_leave() -> None:
    with Session() as session:
        session.execute("CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        session.execute("CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
        query = session.query("q", "SELECT a.ts AS t FROM a [ROWS 3], b [ROWS 1] WHERE a.k = b.k")
        session.push("a", [(1, 1), (1, 2), (2, 3), (2, 4)])
        session.push("b", [(9, 5)])
        session.push("a", [(8, 6)])
        session.step()
        stream = next(stream for stream in session.pipeline.stores() if stream.name == "a")
        ids = stream.store.ids()
        stream.release(stream.ports[0], ids[stream.store.at("ts", ids) == 3])
        session.push("b", [(1, 7)])
        session.run(once=True, final=False)
        assert query.table().num_rows == 0, "the row at 2 is the fourth from the end, whichever rows have gone"
