"""Help and versions: complete, and printed without loading the engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

import eddyline
from eddyline.cli import generate_options
from eddyline.cli.__main__ import COMMANDS, OLD_NAMES, main, parser
from eddyline.cli.lab import options as lab_options
from eddyline.cli.plans import options as plans_options
from eddyline.connectors.generators import generate
from eddyline.plan.index_choice import rgreedy
from eddyline.plan.index_choice import search as index_search
from eddyline.plan.tree.jtree import search as tree_search

#: Prints the help of its arguments, then the modules that the process has loaded.
LOADED = """
import contextlib, io, json, sys
from eddyline.cli.__main__ import main
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        main(arguments)
    assert shown.getvalue(), arguments
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"numba", "llvmlite", "pyarrow", "numpy", "sqlglot", "rich", "pandas", "pyspark", "prompt_toolkit"}
NAMES = [module.rpartition(".")[2] for module in COMMANDS + OLD_NAMES]


def test_help_and_versions_load_no_engine() -> None:
    calls = [["--help"], ["--version"], ["version"], *([name, "--help"] for name in NAMES)]
    calls += [["query", "list", "--help"], ["lab", "index", "--help"], ["generate", "auction", "--help"]]
    here = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(calls)], capture_output=True, text=True, check=True, env=here
    )
    loaded = set(json.loads(done.stdout))
    assert "eddyline.cli.options" in loaded
    assert not HEAVY & loaded


def test_the_help_names_every_command() -> None:
    text = parser().format_help()
    for module in COMMANDS:
        assert re.search(rf"\n +{module.rpartition('.')[2]}\s", text)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("lab", "query", "generate")])
def test_every_command_has_a_function_that_carries_it_out(name: str) -> None:
    module = next(module for module in COMMANDS + OLD_NAMES if module.rpartition(".")[2] == name)
    assert callable(import_module(f"eddyline.cli.{module}").run)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"eddyline {eddyline.__version__}\n" * 2
    assert "__version__" in dir(eddyline)


def test_options_that_help_repeats_are_those_of_the_engine() -> None:
    for kind, (_, own) in generate_options.KINDS.items():
        known = generate.options_of(getattr(generate, kind))
        assert {name: default for name, (default, _) in own.items()} == known
        assert {name: type(default) for name, (default, _) in own.items()} == {n: type(d) for n, d in known.items()}
    assert lab_options.SEARCHES == index_search.METHODS
    assert lab_options.HEURISTICS == rgreedy.HEURISTICS
    assert plans_options.SEARCHES == tree_search.METHODS
