"""One browser, one embedded job and one on Spark for all tests of the page. Without a browser nothing here is
collected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.page import Page, installed, opened
from tests.dashboard.live import LiveJob

collect_ignore_glob = [] if installed() else ["test_*.py"]


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    with opened() as found:
        yield found


@pytest.fixture(scope="session")
def on_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveJob, str]]:
    yield from _job(tmp_path_factory.mktemp("spark"), "spark")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveJob, str]]:
    yield from _job(tmp_path_factory.mktemp("embedded"), "embedded")


def _job(folder: Path, engine: str) -> Iterator[tuple[LiveJob, str]]:
    job = LiveJob(folder, engine) if engine == "embedded" else LiveJob(folder, engine, filters=5, rows=80)
    try:
        yield job, job.start()
    finally:
        job.close()
