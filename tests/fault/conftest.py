"""What the tests of failures share: a process that runs commands of the embedded engine, and the results of a life
without failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.embedded_life import Life, expected
from tests.fault.forked import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("warm")
    Life(folder / "up", None).first()  # type: ignore[arg-type]
    made = Runs(folder / "up")
    yield made
    made.close()


@pytest.fixture(scope="session")
def wanted(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    found = expected(tmp_path_factory.mktemp("expected") / "life", runs)
    assert all(found.values()), "every query has results"
    return found
