"""The public names are the ones we mean: what is exported exists, and what the pages use is exported."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.metadata import version

import eddyline

PUBLIC = {
    "EddylineError": "the mother of all errors",
    "EddylineWarning": "what a program should know",
    "Query": "a registered query",
    "Session": "the front door",
    "Settings": "what SET changes",
    "UserError": "a mistake of the user's",
}


def test_the_package_exports_what_we_mean() -> None:
    assert set(eddyline.__all__) == set(PUBLIC)
    assert all(hasattr(eddyline, name) for name in PUBLIC)


def test_what_is_exported_is_documented() -> None:
    for name in PUBLIC:
        assert inspect.getdoc(getattr(eddyline, name)), name
    undocumented = [
        f"{kind.__name__}.{name}"
        for kind in (eddyline.Session, eddyline.Query)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and not inspect.getdoc(member)
    ]
    assert [name for name in undocumented if name not in ("Session.stats",)] == []


def test_every_name_in_an_all_exists() -> None:
    for found in pkgutil.walk_packages(eddyline.__path__, "eddyline."):
        if found.name.startswith("eddyline.runtime.spark") or found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
        assert missing == [], found.name


def test_importing_the_package_does_not_load_spark_or_the_shell() -> None:
    """A user of the embedded engine installs five packages; nothing beyond them is imported unasked."""
    import subprocess
    import sys

    code = (
        "import sys, eddyline; print(sorted({'pyspark', 'prompt_toolkit', 'matplotlib', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_one() -> None:
    assert version("eddyline").count(".") == 2
