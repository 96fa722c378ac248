"""The pages made from tables in the code are those that the tables give now; that of benchmarks holds what was
measured."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import eddyline
from eddyline.model.expressions.functions import AGGREGATES, FUNCTIONS
from eddyline.settings import OPTIONS

ROOT = Path(__file__).resolve().parents[1]


def tables(name: str = "reference_tables") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date() -> None:
    for path, text in tables().pages().items():
        assert path.read_text() == text, f"{path.name} is out of date: .venv/bin/python docs/reference_tables.py"


def test_every_entry_stands_on_its_page() -> None:
    module = tables()
    functions, settings = module.functions_page(), module.settings_page()
    for function in FUNCTIONS.values():
        assert module._code(function.signature) in functions
    for signature, _ in AGGREGATES.values():
        assert module._code(signature) in functions
    for name, option in OPTIONS.items():
        assert f"| `{'experiment.' * (option.experiment is True)}{name}` |" in settings


def test_every_public_name_and_parameter_is_documented() -> None:
    """The page of Python has each public class with all its methods, and each docstring names all parameters."""
    module = tables("reference_tables").python_reference()
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert sorted(module.CLASSES) == sorted(eddyline.__all__)
    undocumented = []
    for name in module.CLASSES:
        found = getattr(eddyline, name)
        assert f"\n## {name}\n" in page
        for member, what in module.members(found):
            assert f"\n### {name}.{member}\n" in page
            text = what.__doc__ or ""
            parameters = [] if isinstance(what, property) else list(inspect.signature(what).parameters)[1:]
            missing = [one for one in parameters if re.search(rf"`{one}`|^ +{one}: |`{one} =", text, re.M) is None]
            if not text or (missing and not member.startswith("__")):
                undocumented.append((name, member, missing))
    assert undocumented == []
    constructed = inspect.signature(eddyline.Session.__init__).parameters
    assert all(f"- `{one}`: " in page for one in list(constructed)[1:])


def test_the_benchmark_page_says_what_the_result_files_say() -> None:
    module = tables("benchmark_tables")
    page = module.page()
    found = module.found()
    assert found != []
    for result in found:
        assert f"## {result['workload']}, " in page
        for measure in result["measures"]:
            assert f"| {measure['name']} | {len(measure['samples'])} | {measure['median']:.2f} |" in page
            assert module.NOTES[measure["name"]] in page
    # Pages are written by `python docs/benchmark_tables.py`, never by hand.
    assert (ROOT / "docs" / "benchmarks.md").read_text() == page
    reasons = (ROOT / "docs" / "why-eddyline.md").read_text()
    assert module.with_figures(reasons) == reasons


def test_a_run_that_a_larger_one_covers_is_not_shown() -> None:
    module = tables("benchmark_tables")

    def ran(rows: int, *contenders: str, load: float = 0.1, samples: int = 3) -> dict[str, object]:
        measures = [{"name": name, "samples": [{}] * samples} for name in contenders]
        return {
            "workload": "W1",
            "rows_in": rows,
            "batches": 10,
            "load_before": load,
            "machine": {"cores": 2},
            "measures": measures,
        }

    pair, small, busy, whole = (
        ran(9, "duckdb", "eddyline"),
        ran(3, "duckdb", "eddyline", "flink"),
        ran(9, "flink", load=7.0),
        ran(9, "duckdb", "eddyline", "flink"),
    )
    assert [module.provisional(one) for one in (pair, busy, ran(9, "flink", samples=1))] == [False, True, True]
    assert not module.covered(pair, [pair, small, busy])
    assert all(module.covered(one, [pair, small, busy, whole]) for one in (pair, small, busy))
    assert not module.covered(whole, [pair, small, busy, whole])


def test_what_pages_name_in_the_source_is_there() -> None:
    """`operators/join/node.py: JoinNode.produce` in a page is a file, a class and a method of it."""
    everything = [file for folder in ("src", "tests", "bench", "docs") for file in (ROOT / folder).rglob("*.py")]
    named = 0
    for page in (ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for path, _, name in re.findall(r"`((?:\w+/)*\w+\.py)(: ([A-Za-z_.]+))?`", page.read_text()):
            files = [file for file in everything if str(file).endswith(f"/{path}")]
            assert files != [], f"{page.name} names {path}"
            names = {part for part in name.split(".") if part}
            defined = [names <= set(re.findall(r"(?:class|def) (\w+)", file.read_text())) for file in files]
            assert any(defined), f"{page.name} names {name} in {path}"
            named += bool(name)
    assert named > 20
