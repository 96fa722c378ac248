"""The planted faults: one wrong line each, and the test file that finds it.

Answer   `FAULTS` lists them by name. `old` occurs once in `file`; `new` takes its place. One of `tests` fails then.
State    `random`: the test draws its cases, so that a smaller share of them could miss the fault.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    name: str
    #: Below `src/eddyline`.
    file: str
    old: str
    new: str
    #: Below `tests`; a name behind `::` is one test of the file.
    tests: tuple[str, ...]
    random: bool = False

    @property
    def is_kernel(self) -> bool:
        return self.file.startswith("kernels/")


FAULTS = (
    # -- kernels
    Fault(
        "equal values do not ascend",
        "kernels/order.py",
        "later[i] < earlier[i]",
        "later[i] <= earlier[i]",
        ("kernels/test_order.py",),
    ),
    Fault(
        "a stored row meets itself",
        "kernels/joins/bloom.py",
        "row < before and",
        "row <= before and",
        ("kernels/test_bloom.py",),
    ),
    Fault(
        "a range ends one value early",
        "kernels/intervals.py",
        "_first_at_least(ordered, high[i] + 1, at)",
        "_first_at_least(ordered, high[i], at)",
        ("kernels/test_intervals.py",),
        random=True,
    ),
    Fault(
        "a bit goes into the word beside it",
        "kernels/bitsets.py",
        "words[pair & mask, bit >> 6] |=",
        "words[pair & mask, bit >> 7] |=",
        ("kernels/test_bitsets.py",),
        random=True,
    ),
    # -- state
    Fault(
        "a line of a log is counted before it is on the disk",
        "state/whole_file.py",
        "left = left[os.write(file, left) :]\n            if not _is_fleeting(path):\n                os.fsync(file)\n",
        "left = left[os.write(file, left) :]\n",
        ("state/test_whole_file.py",),
    ),
    Fault(
        "a file is renamed before it is on the disk",
        "state/whole_file.py",
        "data = data[os.write(file, data) :]\n            if not _is_fleeting(folder):\n                os.fsync(file)\n",
        "data = data[os.write(file, data) :]\n",
        ("state/test_whole_file.py",),
    ),
    Fault(
        "a folder is not made sure of after a rename",
        "state/whole_file.py",
        "        if synced:\n            sync_folder(folder)\n",
        "",
        ("state/test_whole_file.py",),
    ),
    Fault(
        "dropped rows count as live",
        "state/store.py",
        "return self.end - self.first - self.dropped",
        "return self.end - self.first",
        ("state/test_store.py",),
    ),
    # -- connectors
    Fault(
        "a single dead letter is skipped",
        "connectors/results/dead_letter.py",
        "if table.num_rows == 0:",
        "if table.num_rows <= 1:",
        ("connectors/test_dead_letter.py",),
    ),
    Fault(
        "a name between two ranges is forgotten",
        "connectors/files/taken.py",
        "ends[place - 1] = ends.pop(place)",
        "ends.pop(place)",
        ("connectors/test_taken.py",),
        random=True,
    ),
    Fault(
        "a segment of another time is taken",
        "connectors/results/journal.py",
        "if expected not in (None, digest.decode()):",
        "if expected in (None, digest.decode()) and False:",
        ("connectors/test_outbox.py",),
    ),
    Fault(
        "the second reason of a bad row wins",
        "connectors/formats/conform.py",
        "fresh = misfit & ~dead",
        "fresh = misfit",
        ("connectors/test_conform.py",),
    ),
    # -- language
    Fault(
        "parts of a microsecond pass",
        "language/text/windows.py",
        "if total.denominator != 1:",
        "if False:",
        ("language/test_windows.py",),
    ),
    Fault(
        "IS NULL is written for IS NOT NULL",
        "language/render.py",
        "IS {'NOT ' if function == 'is_not_null' else ''}NULL",
        "IS NULL",
        ("language/test_render.py", "golden/test_language_golden.py"),
    ),
    # -- plan
    Fault(
        "two ends of a trace are no conflict",
        "plan/patterns/satisfy.py",
        "if len(ends) > 1:",
        "if len(ends) > 2:",
        ("plan/test_satisfy.py",),
        random=True,
    ),
    Fault(
        "a function of the user is computed by the planner",
        "plan/rules/fold_constants.py",
        "and OWN not in e.function:",
        "and e.function:",
        ("runtime/test_own_functions.py",),
    ),
    Fault(
        "constants of HAVING are not computed",
        "plan/rules/fold_constants.py",
        "having=None if query.having is None else folded(query.having)",
        "having=query.having",
        ("plan/test_rewrite.py", "golden/test_plan_golden.py"),
    ),
    # -- operators
    Fault(
        "NaN is below a constant",
        "operators/expressions/functions_compare.py",
        "Vector(~below(a.values, b.values), a.valid)",
        "Vector(_NUMPY[name](a.values, b.values), a.valid)",
        ("operators/test_evaluate.py", "property/test_expressions.py"),
        random=True,
    ),
    Fault(
        "a null is compared",
        "operators/expressions/functions_compare.py",
        "return lambda frame, a, b: Vector(plain(a.values, b.values), both(a.valid, b.valid))",
        "return lambda frame, a, b: Vector(plain(a.values, b.values), a.valid)",
        ("operators/test_evaluate.py",),
    ),
    Fault(
        "LAG looks one row too far",
        "operators/ranking/followed.py",
        "here = place >= distance",
        "here = place > distance",
        ("operators/test_ranking.py", "property/test_ranking.py"),
        random=True,
    ),
    Fault(
        "a partition closes one microsecond late",
        "operators/ranking/ranked.py",
        "        stamps = (due - 1)[order",
        "        stamps = due[order",
        ("operators/test_ranking.py", "property/test_ranking.py"),
        random=True,
    ),
    Fault(
        "a combination is stored twice",
        "operators/join/demand/stored.py",
        "return rows.take(~known) if known.any() else rows",
        "return rows",
        ("operators/test_demand_parts.py", "property/test_demand.py"),
        random=True,
    ),
    Fault(
        "a node asks a store that is made after it",
        "operators/join/demand/control.py",
        "place[id(sibling)] < before:",
        "place[id(sibling)] >= 0:",
        ("operators/test_demand_parts.py", "property/test_demand.py"),
        random=True,
    ),
    Fault(
        "a row leaves a window one instant early",
        "operators/join/port.py",
        "searchsorted(frontier - self.longest)))",
        "searchsorted(frontier - self.longest + 1)))",
        ("property/test_answers.py::test_engine_equals_oracle",),
        random=True,
    ),
    Fault(
        "a count forgets that a value left",
        "operators/aggregate/accumulators/accumulators.py",
        "self.change(codes, encoded, valid, -1)",
        "self.change(codes, encoded, valid, 0)",
        ("property/test_aggregates.py",),
        random=True,
    ),
    Fault(
        "a bucket closes before its last row",
        "operators/aggregate/buckets.py",
        "self.due[codes] = clock + self.gap + 1",
        "self.due[codes] = clock + self.gap",
        ("property/test_group_windows.py",),
        random=True,
    ),
    Fault(
        "a herald holds for its last row no more",
        "operators/promises/heralded.py",
        "inside: Flags = (ts <= line.until[owner])",
        "inside: Flags = (ts < line.until[owner])",
        ("operators/test_heralded.py",),
        random=True,
    ),
    Fault(
        "zones that touch do not meet",
        "operators/join/demand/partners.py",
        "ends[np.maximum(at, 1) - 1] >= low",
        "ends[np.maximum(at, 1) - 1] > low",
        ("property/test_zones.py",),
        random=True,
    ),
    Fault(
        "an event of a NOT fills the gap that begins with it",
        "kernels/patterns/automaton_matches.py",
        "events.rank[links.event[link]] < scratch.cut[depth]:",
        "events.rank[links.event[link]] <= scratch.cut[depth]:",
        ("operators/test_pattern_cost.py",),
    ),
    # -- runtime
    Fault(
        "the newest table of results stays behind",
        "runtime/driving/kept_results.py",
        "found, self._waiting, self._rows = list(self._waiting), deque(), 0",
        "found, self._waiting, self._rows = list(self._waiting)[:-1], deque(), 0",
        ("runtime/test_embedded_parts.py",),
    ),
    Fault(
        "a table that cannot be read ends the job",
        "runtime/driving/table_refreshing.py",
        "except (EddylineError, OSError) as problem:",
        "except EddylineError as problem:",
        ("runtime/test_embedded_parts.py",),
    ),
    Fault(
        "rows below the frontier are no dead letters",
        "runtime/engine/lateness.py",
        "if chunk is not None and fronts and int(chunk.ts[0]) < max(fronts):",
        "if chunk is not None and fronts and int(chunk.ts[0]) < min(fronts) - 1:",
        ("runtime/test_timelines.py", "property/test_answers.py::test_engine_equals_oracle"),
        random=True,
    ),
    # -- templates, promises and what can be removed
    Fault(
        "a template leaves out the row of the instant that is asked for",
        "operators/template/rows.py",
        'high = np.searchsorted(ts, requests.instant, side="right")',
        'high = np.searchsorted(ts, requests.instant, side="left")',
        ("property/test_templates.py",),
        random=True,
    ),
    Fault(
        "a promise of an earlier epoch holds no more",
        "operators/promises/closed.py",
        "found = self.old(columns, len(ranks), regions)",
        "found = np.zeros(len(ranks), np.bool_)",
        ("state/test_closed.py",),
    ),
    Fault(
        "a room that stays needs one that can be removed",
        "operators/join/port.py",
        "from __future__ import annotations\n",
        "from __future__ import annotations\n\nimport eddyline.operators.join.zones\n",
        ("test_removable.py",),
    ),
    # -- the command line
    Fault(
        "an error ends with exit code 0",
        "cli/__main__.py",
        "return problem.exit_code",
        "return 0",
        ("cli/test_check.py",),
    ),
    Fault(
        "the first signal ends the process at once",
        "cli/running/signals.py",
        "if self._first is not None and now - self._first > _ONE_SIGNAL:",
        "if self._first is None or now - self._first > _ONE_SIGNAL:",
        ("fault/test_deep_signals.py",),
    ),
    # -- shards, Spark and the dashboard
    Fault(
        "manifests of old batches stay",
        "runtime/sharded/storage/heads.py",
        "            self.objects.delete(_name(batch))\n",
        "",
        ("fault/test_sharded_matrix.py",),
    ),
    Fault(
        "a batch that counts runs again",
        "runtime/sharded/conducting.py",
        "        if head is None:\n            batch, position",
        "        if True:\n            batch, position",
        ("fault/test_sharded_matrix.py",),
    ),
    Fault(
        "what one task of Spark has made is lost",
        "runtime/spark/conductor.py",
        "for _, fields in found.collect()]",
        "for _, fields in found.collect()[1:]]",
        ("spark/test_job.py",),
    ),
    Fault(
        "a job with another number of shards goes on",
        "runtime/sharded/job/ledger.py",
        "if shards != self.shards:",
        "if shards < self.shards:",
        ("spark/test_ledger.py",),
    ),
    Fault(
        "an old dropped query keeps its name",
        "runtime/sharded/job/ledger.py",
        "if entry is None or (entry.final and entry.dropped_by == JOB):",
        "if entry is None:",
        ("spark/test_ledger.py",),
    ),
    Fault(
        "a page of another site may ask",
        "dashboard/guard.py",
        'return origin is None or origin.partition("://")[2] == headers["host"]',
        "return True",
        ("dashboard/test_limits.py", "dashboard/test_server.py"),
    ),
)
