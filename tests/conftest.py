"""What all tests share: random cases that are the same in every run, except in a soak, and an order with the long tests first."""

from __future__ import annotations

import gc
import os
import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("soak" if os.environ.get("EDDYLINE_SOAK") else "same")


#: Files that start most processes or run most batches. Each is run as a whole on one core, and these begin first.
LONGEST = (
    "tests/fault/test_embedded_matrix.py",
    "tests/fault/test_spark_matrix.py",
    "tests/spark/test_sharded.py",
    "tests/fault/test_promises.py",
    "tests/fault/test_resume.py",
    "tests/browser/test_embedded.py",
    "tests/browser/test_spark.py",
    "tests/spark/test_growth.py",
    "tests/spark/test_damage.py",
    "tests/fault/test_embedded_supervised.py",
    "tests/spark/test_answers.py",
)


def pytest_collection_finish() -> None:
    """Modules and tests are no garbage: looks for it pass them over, and come less often."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def pytest_unconfigure() -> None:
    """At the end everything goes: a library says otherwise that its functions are left."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first; otherwise files stay in their order, and tests in that of their file."""
    names = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda one: (names.get(one.nodeid.split("::")[0], len(names)), one.get_closest_marker("slow") is None))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tests of the page need a browser: where there is none, say so."""
    asked = [str(one).rstrip("/") for one in terminalreporter.config.args]
    if any(one.endswith("tests") or "tests/browser" in one for one in asked) and not shutil.which("chromedriver"):
        terminalreporter.write_line(
            "THE BROWSER TESTS DID NOT RUN: there is no Chromium here; make browser installs it", yellow=True, bold=True
        )
