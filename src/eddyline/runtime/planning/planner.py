"""The planner at run time: it samples the stores, decides whether a plan still fits, and has the pipeline replant.

Answer   `choose` gives a new join group its first tree, within the budgets that the other groups leave. `after_epoch`
         samples the stores of each group with `plan = 'auto'` and three streams or more. It moves the group to another
         tree if `plan/tree/migration.py` finds a better one: at once if a budget is exceeded, otherwise if two samples in
         a row find it. After a move the group keeps its tree for `PlanningTuning.cool` samples.
State    Per group its statistics, in which older samples count less and less, and the assessment that EXPLAIN shows. Tree
         and statistics are in every checkpoint (`saved`, `restored`): a restart keeps both.
Limits   A sample needs `rows_per_look` new rows; its cost does not grow with the stores. Selectivities are measured
         between new rows and windows, independently of the probes of the running tree. On Spark the planners of shards
         only sample (`autonomous` is off). The driver adds up their statistics (`seen`), passes them to one planner
         (`weigh`) and sends the migration to `carry_out` of every shard.
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

#: How many of the plans that were not taken `refused` holds.
_REFUSED = 20


@dataclass
class PlannerWatch:
    """The state of the planner for one group."""

    group: JoinGroup
    lowered: Lowered
    choice: TreeChoice
    #: Whether the plan may change.
    follows: bool
    #: The price of the running tree by the newest statistics.
    now: Price | None = None
    #: The statistics of all samples, and those at the last search for a tree.
    seen: GroupStatistics | None = None
    searched: GroupStatistics | None = None
    #: How many samples were taken.
    samples: int = 0
    #: The number of the sample before which the group is not moved again.
    quiet_until: int = 0
    #: The migration that the last search found.
    wanted: Migration | None = None
    #: Whether the log has the warning about an exceeded budget.
    warned: bool = False
    #: At the last sample: the frontier, the end of each store, and the released rows per stream.
    frontier: int | None = None
    ends: dict[int, int] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)


class Planner:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.tuning = pipeline.settings.tuning.planning
        self.watches: dict[str, PlannerWatch] = {}
        #: Whether the plan of at least one group may change.
        self.follows = False
        #: Whether this planner decides; those of shards only carry out migrations.
        self.autonomous = True
        #: Whether `choose` refuses a query that exceeds its budget; on Spark the driver of the job checks this instead.
        self.refuses = True
        #: Every move so far, as `--stats` shows it.
        self.migrations: list[dict[str, object]] = []
        #: The newest trees that a search found and that were not taken, each with the reason.
        self.refused: deque[dict[str, object]] = deque(maxlen=_REFUSED)

    @property
    def sources(self) -> dict[str, Stream | Table]:
        streams = {name: intake.stream for name, intake in self.pipeline.intakes.items()}
        return {**streams, **self.pipeline.table_schemas}

    # -- groups

    def choose(self, lowered: Lowered) -> TreeChoice:
        """The first tree of a new group.

        Raises:
            PlanProblem: no tree fits the budgets that the other groups leave, and `over_budget` is not 'warn'.
        """
        choice = choose(lowered, self.sources, left=self._left(lowered))
        if self.refuses:
            choice = qualified(lowered, choice)
        if choice.bound is not None and self.autonomous:
            log.warning("query %s starts over its %s budget with %s", lowered.query.name, choice.bound, choice.tree)
        return choice

    def watch(self, group: JoinGroup, lowered: Lowered, choice: TreeChoice) -> None:
        """Watch a group that was built with a choice."""
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
        """The budgets that the other groups leave. A stream's store counts once, also if several groups read it."""
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
        """The lines of EXPLAIN about the costs of a group's plan."""
        watch = next((watch for watch in self.watches.values() if watch.group is group), None)
        costs = {} if watch is None else cost_lines(lowered, watch.choice, watch.now)
        promises = promise_line(lowered.query, self.sources)
        times = {name: intake.stream.time for name, intake in self.pipeline.intakes.items()}
        implied = implied_line(lowered.query, times)
        if promises:
            promises["triggers"] = self.pipeline.triggers.line(lowered.query)
        return {**implied, **promises, **costs, **self.pipeline.spilling.lines({seat.source for seat in lowered.seats})}

    # -- across a restart

    def saved(self) -> dict[str, Any]:
        """The part of a checkpoint, as JSON values: per group its plan and its statistics; the moves so far.

        The planner of a shard saves nothing: the driver saves its decisions.
        """
        if not self.autonomous:
            return {}
        plans = {
            signature: plan_document(watch.group.tree, running_orders(watch.group)) | {"quiet_until": watch.quiet_until}
            for signature, watch in self.watches.items()
            if watch.follows
        }
        return {"plans": plans, "marks": self.marks(), "migrations": self.migrations}

    def restored(self, saved: Mapping[str, Any]) -> dict[str, tuple[Tree, Orders]]:
        """Restore the statistics; returns the trees and probe orders to continue with, by signature.

        A group whose plan may not change (a given plan, `replan = 'off'`) is left out: its settings give its tree.
        """
        if not saved:
            return {}
        self.migrations = list(saved["migrations"])
        self.resume(saved["marks"])
        plans = {s: plan for s, plan in saved["plans"].items() if s in self.watches and self.watches[s].follows}
        for signature, plan in plans.items():
            self.watches[signature].quiet_until = plan["quiet_until"]
        return {signature: plan_from(plan) for signature, plan in plans.items()}

    # -- after an epoch

    def after_epoch(self) -> None:
        """Sample the groups whose plan may change, and move those for which a better plan was found."""
        if not any(watch.follows for watch in self.watches.values()):
            return
        self._forget_closed()
        for watch in self.watches.values():
            if watch.follows and self._sample(watch) and self.autonomous:
                migration = self._better(watch)
                if migration is not None:
                    self.carry_out(watch.lowered.signature, migration)

    def seen(self) -> dict[str, GroupStatistics]:
        """The statistics of each group whose plan may change, by signature; those of shards can be added up."""
        return {signature: watch.seen for signature, watch in self.watches.items() if watch.seen is not None}

    def weigh(self, signature: str, seen: GroupStatistics) -> Migration | None:
        """Take the statistics of a group from all shards together; returns the migration to a better plan, which the
        group of this planner makes, too."""
        watch = self.watches[signature]
        watch.seen = seen
        watch.samples += 1
        migration = self._better(watch)
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
                "looks": watch.samples,
                "seen": None if watch.seen is None else watch.seen.to_document(),
            }
            for signature, watch in self.watches.items()
            if watch.follows and watch.frontier is not None
        }

    def resume(self, marks: Mapping[str, Any]) -> None:
        for signature, saved in marks.items():
            if signature in self.watches and self.watches[signature].follows:
                watch = self.watches[signature]
                watch.frontier, watch.released, watch.samples = saved["frontier"], saved["released"], saved["looks"]
                watch.ends = dict(saved["ends"])
                watch.seen = None if saved["seen"] is None else GroupStatistics.from_document(saved["seen"])

    def running(self, signature: str) -> Running:
        """The plan that a group runs, in the form that `assess` and `judge` take."""
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
        rebuilt = sum(kept.store.live for kept in watch.group.intermediates)
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
        watch.quiet_until, watch.wanted, watch.now = watch.samples + self.tuning.cool, None, None

    def _better(self, watch: PlannerWatch) -> Migration | None:
        """The migration that the last two samples find better, or the last one if a budget is exceeded."""
        assert watch.seen is not None
        due = (
            watch.searched is None
            or watch.wanted is not None
            or watch.samples % self.tuning.calm == 0
            or differs(watch.seen, watch.searched, self.tuning.change)
        )
        if watch.samples < 2 or watch.samples < watch.quiet_until or not due:
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
        """Note why another tree is not taken; the same tree of the same queries is one entry."""
        queries = _queries_of(watch.group)
        found = {"epoch": self.pipeline.epochs, "queries": queries, "tree": str(watch.choice.tree), "reason": reason}
        if not any(known["tree"] == found["tree"] and known["queries"] == queries for known in self.refused):
            self.refused.append(found)

    # -- a sample

    def _sample(self, watch: PlannerWatch) -> bool:
        """Sample the stores and add the result to the statistics; returns False if there were too few new rows."""
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
        samples = {p: Sample(base, watch.ends.get(p), frontier, released, self.tuning) for p, base in bases.items()}
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
        new_statistics = GroupStatistics((frontier - watch.frontier) / 1e6, tuple(references), edges)
        watch.seen = new_statistics.after(watch.seen, self.tuning.keep)
        watch.samples += 1
        watch.frontier, watch.released = frontier, released
        watch.ends = {p: bases[p].end for p in moving}
        return True

    def renumber(self, old_to_new: Renumbering) -> None:
        """The rows of a stream have new ids: convert the ends that the last sample noted."""
        for watch in self.watches.values():
            for position, end in watch.ends.items():
                if watch.group.bases[position].store is old_to_new.store:
                    watch.ends[position] = old_to_new.bound(end)


def running_orders(group: JoinGroup) -> Orders:
    """The probe orders that a group's nodes use."""
    return tuple((node.references, node.orders) for node, _ in group.nodes if len(node.inputs) > 2)


def _largest(group: JoinGroup, position: int) -> Window | None:
    """The smallest window that covers the windows of all members of a reference; None: it is a table."""
    base = group.bases[position]
    if base.stream.is_table:
        return None
    windows = [member.window for member in base.port.members.values()]
    ranges = [w.micros for w in windows if isinstance(w, Range)]
    counts = [w.count for w in windows if isinstance(w, Rows)]
    if windows and isinstance(windows[0], Now | PartitionedRows):
        # All members of a group have the same window of these kinds.
        return windows[0]
    if any(isinstance(w, Unbounded) for w in windows) or (ranges and counts) or not windows:
        # Windows by time and by rows cannot be compared.
        return Unbounded()
    return Range(max(ranges)) if ranges else Rows(max(counts))


def _queries_of(group: JoinGroup) -> list[str]:
    return [member.query for member in group.bases[0].port.members.values()]
