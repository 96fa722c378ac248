"""The record of what test files cost: what a run writes, and the order that comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.durations import ROOT, Recorder, cpu_seconds, group_of, merged, slowest_first, write

_WITH_TESTS = os.environ | {"PYTHONPATH": str(ROOT)}
SPIN = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


def test_the_slowest_file_begins_and_an_unknown_one_before_it(tmp_path: Path) -> None:
    files = {"a.py": {"seconds": 1}, "b.py": {"seconds": 9}, "c.py": {"seconds": 3}}
    (tmp_path / "kept.json").write_text(json.dumps({"files": files, "tests": {}}))
    names = ["a.py::x", "a.py::y", "b.py::z", "c.py::x", "new.py::x"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    slowest_first(items, tmp_path / "kept.json")
    assert [one.nodeid for one in items] == ["new.py::x", "b.py::z", "c.py::x", "a.py::x", "a.py::y"]


def test_files_with_the_spark_session_are_one_group_and_those_with_the_browser_another() -> None:
    groups = {
        "tests/spark": ["spark/test_job", "spark/test_nexmark"],
        "tests/browser": ["browser/test_page", "browser/test_spark"],
    }
    for group, files in groups.items():
        assert {group_of(f"tests/{file}.py") for file in files} == {group}
    assert group_of("tests/spark/test_packer.py") == "tests/spark/test_packer.py"
    assert group_of("tests/test_docs.py") == "tests/test_docs.py"


def test_each_group_runs_on_one_worker(tmp_path: Path) -> None:
    """Module fixtures are made once, and so is the session of Spark."""
    for file in "abcd":
        (tmp_path / f"test_{file}.py").write_text(
            "import os, pytest\n@pytest.mark.parametrize('n', range(8))\n"
            f"def test_n(n):\n    open({str(tmp_path / file)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        )
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler")
    ways = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder", "-p", "no:cacheprovider", "--rootdir", "."]
    subprocess.run([sys.executable, "-m", "pytest", *ways], cwd=tmp_path, check=True, env=_WITH_TESTS, timeout=240)
    workers = [set((tmp_path / file).read_text().split()) for file in "abcd"]
    assert [len(one) for one in workers] == [1, 1, 1, 1] and len(set.union(*workers)) == 2


def test_without_a_record_tests_stay_in_their_order(tmp_path: Path) -> None:
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in ("b.py::x", "a.py::x")]
    slowest_first(items, tmp_path / "kept.json")
    assert [one.nodeid for one in items] == ["b.py::x", "a.py::x"]


def test_costs_of_one_file_on_two_workers_are_added(tmp_path: Path) -> None:
    first = {"files": {"a.py": {"cpu": 1.25, "seconds": 2.0, "tests": 3}}, "tests": {}}
    second = {"files": {"a.py": {"cpu": 0.5, "seconds": 1.0, "tests": 4}}, "tests": {"a.py::x": {"seconds": 1.5}}}
    write(merged([first, second]), tmp_path / "new" / "all.json")
    read = json.loads((tmp_path / "new" / "all.json").read_text())
    assert read == {
        "files": {"a.py": {"cpu": 1.75, "seconds": 3.0, "tests": 7}},
        "tests": {"a.py::x": {"seconds": 1.5}},
    }


def test_cpu_time_of_children_counts_while_they_live_and_once_they_ended() -> None:
    before = cpu_seconds()
    child = subprocess.Popen(
        [sys.executable, "-c", SPIN.format(0.3) + "print(flush=True); input()"], stdin=-1, stdout=-1
    )
    assert child.stdout is not None
    child.stdout.readline()
    alive = cpu_seconds() - before
    child.communicate(b"\n")
    assert alive >= 0.25
    assert cpu_seconds() - before >= alive - 0.05


def test_a_file_gets_what_is_spent_until_the_next_one_begins(tmp_path: Path) -> None:
    recorder = Recorder(SimpleNamespace(workeroutput={}), tmp_path / "one.json")  # type: ignore[arg-type]
    for name in ("a.py::x", "a.py::y", "b.py::x"):
        hook = recorder.pytest_runtest_protocol(SimpleNamespace(nodeid=name))
        next(hook)
        if name == "a.py::y":
            exec(SPIN.format(0.2))
        hook.close()
    recorder.pytest_sessionfinish()
    sent = recorder.config.workeroutput["durations"]["files"]  # type: ignore[attr-defined]
    assert sent["a.py"]["tests"] == 2 and sent["b.py"]["tests"] == 1
    assert sent["a.py"]["cpu"] >= 0.2 > sent["b.py"]["cpu"]
