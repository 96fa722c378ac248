"""One Spark session for the folder, and small streams to run through it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from eddyline.runtime.spark.job.session import open_session

    # Workers import the engines of this folder by name.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    # What tests register workers may import too; in this process a test says for itself what it allows.
    further = {
        "EDDYLINE_RECORD_KINDS": "tests.runtime.noted:Notes",
        "EDDYLINE_POLICIES": "tests.operators.hopeless:hopeless",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in further.items():
            patch.setenv(name, value)
        session = open_session("local[2]", name="tests")
    yield session
    session.stop()
