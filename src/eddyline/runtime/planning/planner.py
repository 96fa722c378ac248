"""The planner at run time: looks at what the stores hold, decides whether a plan still fits, asks the pipeline to
replant.

Answer   `choose` gives a new join group its first tree, within what the other groups leave of the budgets.
         `after_epoch` looks at each group with `plan = 'auto'` and three streams or more, and moves it to another tree
         when `plan/tree/migration.py` says so: at once when a budget is broken, on a second opinion otherwise, never
         twice within a few looks.
State    Per group what was seen, fading by half from look to look, and the assessment that EXPLAIN shows. Tree and
         counts are in every checkpoint (`saved`, `restored`), so that a restart neither forgets what was learned nor
         moves back.
Limits   A look needs `rows_per_look` new rows; it samples stores, so its cost does not grow with them. Selectivities
         are measured between new rows and the windows they meet, whatever the running tree probes. Where `autonomous`
         is off (shards), the driver of the job adds up what `seen` gives, passes it to one planner (`weigh`), and sends
         the migration to every shard's `carry_out`.
Reading  docs/design/0003-replanning.md
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import eddyline.plan.tree.jtree.search  # noqa: F401  trees are searched between epochs: no epoch waits until the search is loaded
from eddyline.model.joining import Tree
from eddyline.model.schema import Stream, Table
from eddyline.model.window import Now, PartitionedRows, Range, Rows, Unbounded, Window
from eddyline.operators.join.group import JoinGroup
from eddyline.plan.explain import cost_lines
from eddyline.plan.lower import Lowered
from eddyline.plan.promised import promise_line
from eddyline.plan.ranges.implied import implied_line
from eddyline.plan.tree.budget import unit_costs
from eddyline.plan.tree.cost import Price
from eddyline.plan.tree.jtree.candidates import Budgets
from eddyline.plan.tree.migration import Migration, Running, assess, judge, passed_over, plan_document, plan_from
from eddyline.plan.tree.statistics import GroupStatistics, ReferenceSeen, join_pairs
from eddyline.plan.tree.tree_choice import Orders, TreeChoice, aliases_of, choose, qualified
from eddyline.runtime.figures.epoch_times import NEWEST
from eddyline.runtime.planning.sampling import Sample, differs, sampled_edge
from eddyline.state.renumbering import Renumbering

if TYPE_CHECKING:
    from eddyline.runtime.engine.pipeline import Pipeline

log = logging.getLogger("eddyline.planner")

#: How many plans that were not taken are remembered.
_REFUSED = 20


@dataclass
class PlannerWatch:
    """What the planner remembers of one group."""

    group: JoinGroup
    lowered: Lowered
    choice: TreeChoice
    follows: bool
    now: Price | None = None
    seen: GroupStatistics | None = None
    searched: GroupStatistics | None = None
    looks: int = 0
    quiet_until: int = 0
    wanted: Migration | None = None
    warned: bool = False
    frontier: int | None = None
    ends: dict[int, int] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)


class Planner:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.tuning = pipeline.settings.tuning.planning
        self.watches: dict[str, PlannerWatch] = {}
        #: Whether the plan of some group may change.
        self.follows = False
        #: Whether this planner decides; those of shards only carry out migrations.
        self.autonomous = True
        #: Whether a query may be refused because of its budget; not where the driver of the job has admitted it.
        self.refuses = True
        #: Every move so far, as `--stats` shows it.
        self.migrations: list[dict[str, object]] = []
        #: Other trees that were found and not taken: the newest, each with the reason.
        self.refused: deque[dict[str, object]] = deque(maxlen=_REFUSED)

    @property
    def sources(self) -> dict[str, Stream | Table]:
        streams = {name: intake.stream for name, intake in self.pipeline.intakes.items()}
        return {**streams, **self.pipeline.table_schemas}

    # -- groups

    def choose(self, lowered: Lowered) -> TreeChoice:
        """The first tree of a new group.

        Raises:
            PlanProblem: no tree fits what the other groups leave, and the query does not say `over_budget = 'warn'`.
        """
        choice = choose(lowered, self.sources, left=self._left(lowered))
        if self.refuses:
            choice = qualified(lowered, choice)
        if choice.bound is not None and self.autonomous:
            log.warning("query %s starts over its %s budget with %s", lowered.query.name, choice.bound, choice.tree)
        return choice

    def watch(self, group: JoinGroup, lowered: Lowered, choice: TreeChoice) -> None:
        """A group has been built with a choice."""
        settings = lowered.query.settings
        follows = settings.plan == "auto" and settings.replan == "on" and len(lowered.moving) > 2
        self.watches[lowered.signature] = PlannerWatch(group, lowered, choice, follows)
        self.follows |= follows

    def _forget_closed(self) -> None:
        groups = self.pipeline.groups
        for signature in [s for s in self.watches if s not in groups]:
            del self.watches[signature]
        self.follows = any(watch.follows for watch in self.watches.values())

    def _left(self, lowered: Lowered, own: Mapping[str, float] | None = None) -> Budgets:
        """What the other groups leave of the budgets; a stream's store is counted once, whatever the number of its
        readers."""
        self._forget_closed()
        settings = lowered.query.settings
        others = [watch.choice for signature, watch in self.watches.items() if signature != lowered.signature]
        cpu, memory = settings.cpu_budget, settings.memory_budget
        if cpu is not None:
            cpu = max(cpu - sum(other.price.cpu for other in others), 0.0)
        if memory is None:
            return Budgets(cpu, None)
        held: dict[str, float] = {}
        for other in others:
            for source, size in other.held.items():
                held[source] = max(held.get(source, 0.0), size)
        mine = own if own is not None else choose(lowered, self.sources, left=Budgets()).held
        extra = sum(max(size - mine.get(source, 0.0), 0.0) for source, size in held.items())
        return Budgets(cpu, max(memory - sum(other.inner for other in others) - extra, 0.0))

    def lines(self, group: object, lowered: Lowered) -> dict[str, str]:
        """What EXPLAIN says of the costs of a group's plan."""
        watch = next((watch for watch in self.watches.values() if watch.group is group), None)
        costs = {} if watch is None else cost_lines(lowered, watch.choice, watch.now)
        streams = {name: intake.stream for name, intake in self.pipeline.intakes.items()}
        promises = promise_line(lowered.query, {**streams, **self.pipeline.table_schemas})
        implied = implied_line(lowered.query, {name: stream.time for name, stream in streams.items()})
        if promises:
            promises["triggers"] = self.pipeline.triggers.line(lowered.query)
        return {**implied, **promises, **costs, **self.pipeline.spilling.lines({seat.source for seat in lowered.seats})}

    # -- across a restart

    def saved(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON values: per group the plan that runs and what looks rest on; the moves so
        far.

        The planner of a shard keeps nothing: the driver keeps what it decided.
        """
        if not self.autonomous:
            return {}
        plans = {
            signature: {
                **plan_document(watch.group.tree, running_orders(watch.group)),
                "quiet_until": watch.quiet_until,
            }
            for signature, watch in self.watches.items()
            if watch.follows
        }
        return {"plans": plans, "marks": self.marks(), "migrations": self.migrations}

    def restored(self, saved: Mapping[str, Any]) -> dict[str, tuple[Tree, Orders]]:
        """Remember what was seen before a restart; the trees and probe orders to continue with, by signature.

        A group whose plan may not change (a given plan, `replan = 'off'`) is not among them: it has what its settings
        say now.
        """
        if not saved:
            return {}
        self.migrations = list(saved["migrations"])
        self.resume(saved["marks"])
        mine = {
            signature: watch
            for signature, watch in self.watches.items()
            if watch.follows and signature in saved["plans"]
        }
        for signature, watch in mine.items():
            watch.quiet_until = saved["plans"][signature]["quiet_until"]
        return {signature: plan_from(saved["plans"][signature]) for signature in mine}

    # -- after an epoch

    def after_epoch(self) -> None:
        """Look at the groups whose plan may change; move those for which that is worth it."""
        if not any(watch.follows for watch in self.watches.values()):
            return
        self._forget_closed()
        for watch in self.watches.values():
            if watch.follows and self._look(watch) and self.autonomous:
                migration = self._considered(watch)
                if migration is not None:
                    self.carry_out(watch.lowered.signature, migration)

    def seen(self) -> dict[str, GroupStatistics]:
        """What was seen of each group whose plan may change, by signature: records that can be added up over shards."""
        return {signature: watch.seen for signature, watch in self.watches.items() if watch.seen is not None}

    def weigh(self, signature: str, seen: GroupStatistics) -> Migration | None:
        """What was seen of a group elsewhere, by all shards together; the move that it asks for, which the group here
        makes too."""
        watch = self.watches[signature]
        watch.seen = seen
        watch.looks += 1
        migration = self._considered(watch)
        if migration is not None:
            self._move(watch, migration)
        return migration

    def marks(self) -> dict[str, Any]:
        """The sampling state per group, by signature, as JSON values: for pipelines that are closed and opened between
        two epochs."""
        return {
            signature: {
                "frontier": watch.frontier,
                "released": watch.released,
                "ends": list(watch.ends.items()),
                "looks": watch.looks,
                "seen": None if watch.seen is None else watch.seen.to_document(),
            }
            for signature, watch in self.watches.items()
            if watch.follows and watch.frontier is not None
        }

    def resume(self, marks: Mapping[str, Any]) -> None:
        for signature, saved in marks.items():
            if signature in self.watches and self.watches[signature].follows:
                watch = self.watches[signature]
                watch.frontier, watch.released, watch.looks = saved["frontier"], saved["released"], saved["looks"]
                watch.ends = dict(saved["ends"])
                watch.seen = None if saved["seen"] is None else GroupStatistics.from_document(saved["seen"])

    def running(self, signature: str) -> Running:
        """What a group runs, in the form that `decide` takes."""
        watch = self.watches[signature]
        orders = running_orders(watch.group)
        windows = tuple(_largest(watch.group, position) for position in range(len(watch.lowered.seats)))
        left = self._left(watch.lowered, watch.choice.held)
        return Running(watch.lowered, watch.group.tree, orders, self.sources, unit_costs(), windows, left)

    def carry_out(self, signature: str, migration: Migration) -> None:
        """Move a group to another tree, between two epochs."""
        watch = self.watches[signature]
        before = aliases_of(watch.group.tree, watch.lowered.aliases)
        after = aliases_of(migration.tree, watch.lowered.aliases)
        began = perf_counter()
        self._move(watch, migration)
        seconds = perf_counter() - began
        rebuilt = sum(kept.store.live for kept in watch.group.intermediates())
        queries = _queries_of(watch.group)
        self.migrations.append(
            {
                "epoch": self.pipeline.epochs, "queries": queries, "from": str(before), "to": str(after), "reason": migration.reason,
                "cpu_before": migration.before, "cpu_after": migration.after, "seconds": seconds, "rows_rebuilt": rebuilt,
            }
        )  # fmt: skip
        del self.migrations[:-NEWEST]
        log.info(
            "%s: %s to %s, %d rows in %.3f s: %s", ", ".join(queries), before, after, rebuilt, seconds, migration.reason
        )

    def _move(self, watch: PlannerWatch, migration: Migration) -> None:
        self.pipeline.replant(watch.group, migration.tree, migration.orders)
        watch.quiet_until, watch.wanted, watch.now = watch.looks + self.tuning.cool, None, None

    def _considered(self, watch: PlannerWatch) -> Migration | None:
        """What the last look asks for, once it has been said twice; a broken budget is not waited for."""
        assert watch.seen is not None
        due = (
            watch.searched is None
            or watch.wanted is not None
            or watch.looks % self.tuning.calm == 0
            or differs(watch.seen, watch.searched, self.tuning.change)
        )
        if watch.looks < 2 or watch.looks < watch.quiet_until or not due:
            return None
        running = self.running(watch.lowered.signature)
        watch.searched = watch.seen
        watch.now, watch.choice = assess(watch.seen, running)
        if watch.choice.bound is not None and not watch.warned:
            watch.warned = True
            log.warning("query %s: no plan fits the %s budget any more", watch.lowered.query.name, watch.choice.bound)
        before, watch.wanted = watch.wanted, judge(watch.now, watch.choice, running, watch.seen.shards)
        if watch.wanted is None and (reason := passed_over(watch.now, watch.choice, running)) is not None:
            self._note_refused(watch, reason)
        again = before is not None and watch.wanted is not None
        return watch.wanted if again or (watch.wanted is not None and watch.wanted.urgent) else None

    def _note_refused(self, watch: PlannerWatch, reason: str) -> None:
        """Remember why another tree is not taken; the same tree of the same queries is one entry."""
        queries = _queries_of(watch.group)
        found = {"epoch": self.pipeline.epochs, "queries": queries, "tree": str(watch.choice.tree), "reason": reason}
        if not any(known["tree"] == found["tree"] and known["queries"] == queries for known in self.refused):
            self.refused.append(found)

    # -- a look

    def _look(self, watch: PlannerWatch) -> bool:
        """Add what is new to what was seen; whether there was enough."""
        timeline = self.pipeline.timelines[frozenset(watch.lowered.seats[p].source for p in watch.lowered.moving)]
        frontier = timeline.frontier
        if frontier is None:
            return False
        bases = watch.group.bases
        moving = [p for p, seat in enumerate(watch.lowered.seats) if not seat.is_table]
        released = {name: queue.released for name, queue in timeline.queues.items()}
        if watch.frontier is None:
            watch.frontier, watch.released = frontier, released
            watch.ends = {p: bases[p].end for p in moving}
            return False
        new = sum(released.values()) - sum(watch.released.values())
        if new < self.tuning.rows_per_look or frontier <= watch.frontier:
            return False
        samples = {
            position: Sample(bases[position], watch.ends.get(position), frontier, released, self.tuning)
            for position in bases
        }
        references = []
        for position, base in bases.items():
            sample = samples[position]
            source = watch.lowered.seats[position].source
            came = released.get(source, 0) - watch.released.get(source, 0)
            width = base.store.nbytes / max(base.store.live, 1)
            references.append(ReferenceSeen(came, sample.wanted, sample.rows, sample.rows * width))
        edges = {
            pair: sampled_edge(watch.lowered, pair, samples, self.tuning.pairs) for pair in join_pairs(watch.lowered)
        }
        look = GroupStatistics((frontier - watch.frontier) / 1e6, tuple(references), edges)
        watch.seen = look.after(watch.seen, self.tuning.keep)
        watch.looks += 1
        watch.frontier, watch.released = frontier, released
        watch.ends = {p: bases[p].end for p in moving}
        return True

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: which of them are new since the last look stays."""
        for watch in self.watches.values():
            for position, end in watch.ends.items():
                if watch.group.bases[position].store is old_to_new.store:
                    watch.ends[position] = old_to_new.bound(end)


def running_orders(group: JoinGroup) -> Orders:
    """The probe orders that a group's nodes use."""
    return tuple((node.references, node.orders) for node, _ in group.nodes if len(node.inputs) > 2)


def _largest(group: JoinGroup, position: int) -> Window | None:
    """The window that a reference's store has to cover for all members."""
    base = group.bases[position]
    if base.stream.is_table:
        return None
    windows = [member.window for member in base.port.members.values()]
    ranges = [w.micros for w in windows if isinstance(w, Range)]
    counts = [w.count for w in windows if isinstance(w, Rows)]
    if windows and isinstance(windows[0], Now | PartitionedRows):
        # All members of the group have the same.
        return windows[0]
    if any(isinstance(w, Unbounded) for w in windows) or (ranges and counts) or not windows:
        # Windows by time and by rows do not compare: what the store holds decides.
        return Unbounded()
    return Range(max(ranges)) if ranges else Rows(max(counts))


def _queries_of(group: JoinGroup) -> list[str]:
    return [member.query for member in group.bases[0].port.members.values()]


__all__ = ["Planner", "PlannerWatch", "running_orders"]
