"""What all tests share: random cases that the commit chooses, and an order with the slow files first."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import forks
from tests.durations import SESSION, Groups, Recorder, file_of, group_of, slowest_first
from tests.needs import said_of
from tests.property.pieces import make_small
from tests.seeds import cases, first_seed, repeated_by, share

# The seed comes from the commit or from EDDYLINE_SEED, and `cases` says how many examples there are: a database would
# add others.
settings.register_profile(
    "seeded",
    deadline=None,
    database=None,
    max_examples=cases(100, soak=1_000),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("seeded")
make_small()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Workers and children of tests have this seed too, should there be another commit meanwhile.
    os.environ["EDDYLINE_SEED"] = str(first_seed())
    # While modules are loaded and tests are collected nothing becomes garbage.
    gc.disable()
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(first_seed())
    if "EDDYLINE_DURATIONS" in os.environ:
        config.pluginmanager.register(Recorder(config, Path(os.environ["EDDYLINE_DURATIONS"])))


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(f"random cases: {share():g} of all, {repeated_by()}")


def pytest_collection_finish() -> None:
    """Modules and tests are no garbage: looks for it pass them over, and come less often."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """At the end everything goes: a library says otherwise that its functions are left."""
    forks.close()
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slowest_first(items)
    # All files with the one Spark session are a group, which begins first; every other file is one.
    items.sort(key=lambda one: group_of(file_of(one.nodeid)) != SESSION)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    return Groups(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tests that could not run on this machine: how many, why, and how they run. After a failure, how to repeat the
    random cases."""
    for line in said_of(terminalreporter):
        terminalreporter.write_line(line, yellow=True, bold=True)
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"random cases: {repeated_by()} repeats them on any commit", yellow=True, bold=True)
