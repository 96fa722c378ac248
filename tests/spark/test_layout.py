"""A layout lies in a shared folder as data: it comes back equal, damage is named, and no file there can run code."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from eddyline.errors import CheckpointProblem
from eddyline.language import bind_script
from eddyline.language.text.long_lists import LONG
from eddyline.runtime.sharded.ingest.control import forget_control, next_control, read_control, write_control
from eddyline.runtime.sharded.job.document import from_document, kinds_of, to_document
from eddyline.runtime.sharded.job.layout import JobLayout, PackedLayout, _open
from eddyline.runtime.sharded.job.reconciling import reconciled
from eddyline.runtime.sharded.job.static_table import kept

SCRIPT = """
SET shards = 3;
CREATE STREAM a (k BIGINT, v DECIMAL(9, 2), s STRING, ts TIMESTAMP) WITH (time='ts', lateness='1 second', idle='2 seconds', sequence='k');
CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time='ts', rate='100');
CREATE TABLE t (k BIGINT, name STRING) WITH (format='csv', path='{folder}/t.csv');
CREATE QUERY pairs WITH (jit = 'exact') AS SELECT a.v + 1.25 AS v, b.v * 1e300 AS w, t.name FROM a [RANGE 1 SECOND], b [ROWS 5], t
  WHERE a.k = b.k AND t.k = a.k AND (a.s LIKE 'x%' OR a.s IN ('y', 'it''s', NULL) OR b.v > CAST('inf' AS DOUBLE));
CREATE QUERY sums AS SELECT date_trunc('minute', ts) AS m, COUNT(DISTINCT k) AS n FROM b GROUP BY date_trunc('minute', ts)
  HAVING SUM(v) > 3 EMIT ON CLOSE;
CREATE QUERY every AS SELECT k, MAX(ts) AS last FROM b [RANGE 1 HOUR] WHERE ts > TIMESTAMP '2020-01-01 00:00:00' GROUP BY k
  EMIT EVERY 5 SECONDS;
"""


@pytest.fixture
def layout(tmp_path: Path) -> JobLayout:
    (tmp_path / "t.csv").write_text("k,name\n1,one\n2,two\n")
    job = bind_script(SCRIPT.replace("{folder}", str(tmp_path)))
    return reconciled(
        str(tmp_path / "ck"),
        job.streams,
        job.queries,
        job.tables,
        job.settings,
        2,
    )


def settle(layout: JobLayout) -> JobLayout:
    tables = [found.table for found in layout.tables]
    return reconciled(
        layout.checkpoint,
        layout.streams,
        layout.queries,
        tables,
        layout.settings,
        2,
    )


def test_a_layout_comes_back_as_it_was(layout: JobLayout) -> None:
    packed = PackedLayout.of(layout)
    again = packed.open()
    assert again == layout and again.routing == layout.routing and PackedLayout.of(again) == packed
    assert again.tables[0].rows().to_pydict() == {"k": [1, 2], "name": ["one", "two"]}


def test_a_deep_condition_is_a_long_list(tmp_path: Path) -> None:
    terms = " OR ".join(f"k = {n} AND v > {n}" for n in range(100))
    job = bind_script(
        f"CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time='ts'); CREATE QUERY q AS SELECT k FROM b WHERE {terms};"
    )
    made = reconciled(str(tmp_path), job.streams, job.queries, (), job.settings, 2)
    assert PackedLayout.of(made).open() == made


def test_long_lists_of_every_form_come_back(tmp_path: Path) -> None:
    forms = {"k": "{}", "v": "{}.5", "m": "{}.25", "s": "'it''s {}'", "ts": "'2020-01-01 00:00:00.{:06d}'"}
    lists = {column: ", ".join(form.format(n) for n in range(LONG)) for column, form in forms.items()}
    queries = [
        f"CREATE QUERY of_{column} AS SELECT k FROM b WHERE {column} IN ({found});" for column, found in lists.items()
    ]
    job = bind_script(
        "CREATE STREAM b (k BIGINT, v DOUBLE, m DECIMAL(9, 2), s STRING, ts TIMESTAMP) WITH (time='ts');"
        + "\n".join(queries)
    )
    made = reconciled(str(tmp_path), job.streams, job.queries, (), job.settings, 2)
    again = PackedLayout.of(made).open()
    assert again == made
    assert sum("Literals" in repr(query) for query in again.queries) == len(forms)


def test_only_classes_of_the_list_are_made(layout: JobLayout) -> None:
    document = json.loads(json.dumps(to_document(layout)))
    assert from_document(JobLayout, document) == layout
    for kind in ("Popen", "os.system", "PackedLayout", "EddylineError", "eval", "Path", ["tuple"]):
        spoiled = {"root": document["root"], "nodes": [[kind, "touch /tmp/x"], *document["nodes"]]}
        with pytest.raises(ValueError, match="is not a JobLayout"):
            from_document(JobLayout, spoiled)
    for wrong in (
        {},
        [],
        {"root": [0], "nodes": []},
        {"root": [0], "nodes": [["tuple", [7]]]},
        {"root": [0], "nodes": [["decimal", "x"]]},
    ):
        with pytest.raises(ValueError, match="is not a JobLayout"):
            from_document(JobLayout, wrong)
    assert all(kind.__module__.startswith("eddyline.") for kind in kinds_of(JobLayout).values())


class _Evil:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.mark,)


def test_planted_files_run_nothing(layout: JobLayout, tmp_path: Path) -> None:
    """A pickle in the place of every file that driver and workers open by the checkpoint's word."""
    mark = tmp_path / "planted code ran"
    evil = pickle.dumps(_Evil(str(mark)))
    packed = PackedLayout.of(layout)
    number = write_control(layout.checkpoint, {"idle": ["a"]})
    opened = {
        packed.path: packed.open,
        layout.tables[0].path: layout.tables[0].rows,
        os.path.join(layout.checkpoint, "eddyline", "control", f"{number:012d}.json"): lambda: read_control(
            layout.checkpoint, number
        ),
        os.path.join(layout.checkpoint, "eddyline", "ledger.json"): lambda: settle(layout),
    }
    for path, open_it in opened.items():
        _open.cache_clear()
        before = Path(path).read_bytes()
        Path(path).write_bytes(evil)
        with pytest.raises(CheckpointProblem) as refused:
            open_it()
        assert path in refused.value.message and refused.value.detail and refused.value.hint
        Path(path).write_bytes(before)
    # A layout of an earlier form, under the name that it had, is not opened, and goes.
    planted = Path(packed.path).with_suffix(".pickle")
    planted.write_bytes(evil)
    PackedLayout.of(layout).keep()
    assert not mark.exists() and not planted.exists()
    # The file does what it is feared for.
    pickle.loads(evil)
    assert mark.exists()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]])
def test_damage_is_named(layout: JobLayout, damage) -> None:
    packed = PackedLayout.of(layout)
    for path, open_it, held in (
        (packed.path, packed.open, "layout of the job"),
        (layout.tables[0].path, layout.tables[0].rows, "rows of table t"),
        (
            os.path.join(layout.checkpoint, "eddyline", "ledger.json"),
            lambda: settle(layout),
            "shards, streams and queries",
        ),
    ):
        _open.cache_clear()
        Path(path).write_bytes(damage(Path(path).read_bytes()))
        with pytest.raises(CheckpointProblem, match="is damaged") as refused:
            open_it()
        assert path in refused.value.message and held in refused.value.detail and refused.value.hint


def test_control_records_that_are_committed_go_and_numbers_go_on(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for number in range(5):
        assert write_control(folder, {"idle": [str(number)]}) == number
    forget_control(folder, 4)
    assert next_control(folder) == 5 and json.loads(read_control(folder, 4)) == {"idle": ["4"]}
    with pytest.raises(CheckpointProblem, match="missing"):
        read_control(folder, 3)
    forget_control(folder, 9)
    assert len(os.listdir(tmp_path / "eddyline" / "control")) == 1 and write_control(folder, {}) == 5


def test_a_table_is_kept_once(layout: JobLayout) -> None:
    folder = os.path.dirname(layout.tables[0].path)
    assert kept(folder, layout.tables[0].table) == layout.tables[0] and len(os.listdir(folder)) == 1
