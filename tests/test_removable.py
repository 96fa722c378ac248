"""A feature can be removed: without its files and its lines in registries, everything else answers as before.

Answer   Each case copies the package without one feature and runs `removable_jobs.py` with the copy in a process of its
         own. The answers are those of the whole package. `FEATURES` names what goes: files and folders, and statements,
         entries of dictionaries and members of tuples that begin with a text.
Limits   Jobs that need the feature do not run. The copies share the compiled kernels of the package: Numba finds them
         beside the kernels, where a link in each copy leads.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import eddyline
from tests import forks
from tests.removable_jobs import JOBS

PACKAGE = Path(eddyline.__file__).parent
SCRIPT = Path(__file__).with_name("removable_jobs.py")
COMMANDS = "cli/__main__.py"
GRAMMAR = "language/grammar/grammar.py"
KINDS = "runtime/engine/units/kinds.py"
REGISTRY = "operators/join/registry.py"


@dataclass(frozen=True)
class Feature:
    #: Files and folders that go.
    files: tuple[str, ...]
    #: File -> how the statements, entries and members begin that go from it.
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Jobs that need the feature.
    jobs: tuple[str, ...] = ()


def option(*names: str) -> dict[str, tuple[str, ...]]:
    """The lines of settings."""
    return {"settings.py": tuple(begin for name in names for begin in (f"{name}:", f'"{name}":'))}


def switch(name: str) -> dict[str, tuple[str, ...]]:
    """The line of what queries with the same joins must have in common to share one."""
    return {"plan/lower.py": (f'lambda given: f" {name}=',)}


FEATURES = {
    "demand": Feature(
        ("operators/join/demand",),
        {REGISTRY: ("from eddyline.operators.join.demand.", "demand"), **switch("jit"), **option("jit", "jit_control")},
    ),
    "routing": Feature(
        ("operators/join/routing",),
        {REGISTRY: ("from eddyline.operators.join.routing.", "lottery_route"), **switch("route"), **option("route")},
    ),
    "scheduling": Feature(
        ("operators/join/scheduling",),
        {REGISTRY: ("from eddyline.operators.join.scheduling.", "shared_schedules"), **option("scheduler")},
    ),
    # The setting stays: filters and templates have zones too.
    "zones": Feature(("operators/join/zones",), {REGISTRY: ("from eddyline.operators.join.zones.", "zone_skipping")}),
    # The settings stay: the language and plans read them, for the punctuations of streams and results.
    "punctuations": Feature(
        ("operators/join/punctuations",),
        {REGISTRY: ("from eddyline.operators.join.punctuations.", "punctuations")},
    ),
    "sharing of probes": Feature(
        ("operators/join/sharing",),
        {REGISTRY: ("from eddyline.operators.join.sharing.", "shared_probes", "last_probes")},
    ),
    "patterns": Feature(
        (
            "operators/pattern",
            "kernels/patterns",
            "plan/patterns",
            "language/binding/bind_event.py",
            "language/binding/disjuncts.py",
            "language/grammar/events.py",
            "runtime/engine/units/patterns.py",
            "connectors/bpmn.py",
            "cli/plans/constraints.py",
        ),
        {
            KINDS: ("from eddyline.runtime.engine.units.patterns", "PatternKind"),
            GRAMMAR: ("from eddyline.language.grammar.events", '"EVENT"', '"constraints"'),
            "language/derived/derive.py": ("from eddyline.language.binding.bind_event", "Event:"),
            "language/job.py": ("from eddyline.language.binding.bind_event", "syntax.CreateConstraints:"),
            "plan/prepare.py": ("(lambda query: query.pattern",),
            COMMANDS: ('"plans.constraints",',),
        },
        jobs=("patterns",),
    ),
    "templates": Feature(
        (
            "operators/template",
            "kernels/requests",
            "plan/index_choice/templates.py",
            "plan/template_text.py",
            "language/requests",
            "language/grammar/request_clauses.py",
            "runtime/engine/requests.py",
            "runtime/engine/units/templates.py",
            "runtime/engine/units/requests.py",
            "runtime/engine/units/early_rows.py",
            "runtime/driving/job_requests.py",
            "runtime/embedded/requests.py",
            "runtime/sharded/shard/requests.py",
            "runtime/sharded/job/requests.py",
            "runtime/control/request_answers.py",
            "connectors/results/request_files.py",
            "cli/running/request.py",
            "cli/lab",
        ),
        {
            KINDS: (
                "from eddyline.runtime.engine.units.requests",
                "from eddyline.runtime.engine.units.templates",
                "RequestsKind",
                "TemplateKind",
            ),
            GRAMMAR: ("from eddyline.language.grammar.request_clauses", '"REQUEST"', '"template"', '"requests"'),
            "language/job.py": (
                "from eddyline.language.requests.",
                "syntax.CreateTemplate:",
                "syntax.CreateRequests:",
                "syntax.RequestStatement:",
            ),
            "plan/prepare.py": ("(lambda query: isinstance(query, BoundTemplate",),
            COMMANDS: ('"running.request",', '"lab.lab",'),
        },
    ),
    "ranking": Feature(
        (
            "operators/ranking",
            "runtime/engine/registered/ranked.py",
            "runtime/engine/registered/ranked_state.py",
            "runtime/engine/registered/ranked_living.py",
            "runtime/engine/registered/followed.py",
        ),
        {
            "runtime/engine/registered/forms.py": (
                "(lambda query: query.living is not None and query.ranking",
                "(lambda query: query.ranking is not None",
                "(lambda query: query.followed",
            )
        },
        jobs=("ranking",),
    ),
    "dashboard": Feature(
        ("dashboard", "cli/running/dashboard.py", "cli/running/top.py"),
        {
            COMMANDS: ('"running.dashboard"', '"running.top"'),
            "cli/run.py": (
                "from eddyline.cli.running.dashboard",
                "check_dashboard(",
                "serve_dashboard(",
            ),
            "cli/options.py": ("add_dashboard_options(",),
        },
    ),
    "Spark": Feature(
        ("runtime/spark", "runtime/sharded"),
        {"cli/running/state.py": ("from eddyline.runtime.sharded.", "spark_state,")},
    ),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Those of the whole package."""
    return answers_of(PACKAGE.parent, tmp_path_factory.mktemp("whole"), list(JOBS))


@pytest.mark.parametrize("name", FEATURES)
def test_everything_else_answers_without(name: str, answers: dict[str, object], tmp_path: Path) -> None:
    feature = FEATURES[name]
    copied_without(feature, tmp_path / "copy")
    jobs = [job for job in JOBS if job not in feature.jobs]
    assert answers_of(tmp_path / "copy", tmp_path, jobs) == {job: answers[job] for job in jobs}


def answers_of(source: Path, folder: Path, jobs: list[str]) -> dict[str, object]:
    """What the jobs answer in a process that imports the package below `source`."""
    here = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = forks.run(
        [sys.executable, str(SCRIPT), str(folder), *jobs],
        env={**here, "PYTHONPATH": str(source)}, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, object] = json.loads((folder / "answers.json").read_text())
    return found


def copied_without(feature: Feature, place: Path) -> None:
    """The package without the feature. Unchanged files keep their bytecode, and kernels their compiled code."""
    copy = place / PACKAGE.name
    kernels = str(PACKAGE / "kernels")
    shutil.copytree(PACKAGE, copy, ignore=lambda folder, names: ["__pycache__"] if folder.startswith(kernels) else [])
    for compiled in (PACKAGE / "kernels").rglob("__pycache__"):
        (copy / compiled.relative_to(PACKAGE)).symlink_to(compiled)
    for name in feature.files:
        gone = copy / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    for name, begins in feature.lines.items():
        (copy / name).write_text(without((copy / name).read_text(), begins))


def without(text: str, begins: tuple[str, ...]) -> str:
    """A module without the statements, entries and members that begin with these texts; each of the texts is found."""
    lines, found = text.splitlines(keepends=True), set()
    for first, last in parts(ast.parse(text)):
        begun = next((one for one in begins if lines[first].lstrip().startswith(one)), None)
        if begun is not None:
            found.add(begun)
            lines[first:last] = [""] * (last - first)
    assert found == set(begins), f"not found: {set(begins) - found}"
    return "".join(lines)


def parts(module: ast.Module) -> Iterator[tuple[int, int]]:
    """The lines of all statements, entries of dictionaries and members of tuples that begin a line of their own."""
    for node in ast.walk(module):
        if isinstance(node, ast.stmt):
            yield node.lineno - 1, node.end_lineno or node.lineno
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None:
                    yield key.lineno - 1, value.end_lineno or value.lineno
        if isinstance(node, ast.Tuple):
            for member in node.elts:
                if member.lineno > node.lineno:
                    yield member.lineno - 1, member.end_lineno or member.lineno
