"""Checking and explaining a job loads no compiled code; checking one loads no arrays either."""

import subprocess
import sys

import pytest

JOB = """
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (time = 'ts', path = 'a');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', path = 'b');
CREATE STREAM c (s STRING, ts TIMESTAMP) WITH (time = 'ts', path = 'c');
CREATE QUERY two AS SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.k > 1 + 2;
CREATE QUERY three AS SELECT a.k FROM a [RANGE 1 SECOND], b [ROWS 5], c [RANGE 1 SECOND] WHERE a.k = b.k AND a.s = c.s;
CREATE QUERY sums AS SELECT k, SUM(k) AS total FROM a [RANGE 1 MINUTE] GROUP BY k;
"""

PROGRAM = """
import sys
from eddyline.cli.__main__ import main
assert main(sys.argv[1:]) == 0
loaded = [name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite", "pyspark") or name.startswith("eddyline.kernels")]
assert not loaded, loaded
"""


@pytest.mark.parametrize("command", [["check"], ["explain"], ["explain", "--shards", "4"]])
def test_planning_loads_no_kernels(command, tmp_path):
    (tmp_path / "job.sql").write_text(JOB)
    first, *rest = command
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, first, "job.sql", *rest], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


#: Loaded by a job whose conditions have constants to compute, or whose trees are searched for.
ARRAYS = ("numpy", "pyarrow")
#: Loaded by jobs that run, by EXPLAIN, or by statements that this job does not have.
LATER = (
    "operators",
    "state",
    "connectors",
    "plan.explain",
    "plan.shape",
    "plan.patterns",
    "plan.ranges.predsat",
    "plan.tree.jtree.search",
    "model.records.records",
)

CHECK = f"""
import sys
from eddyline.cli.__main__ import main
assert main(["check", "job.sql"]) == 0
loaded = [name for name in sys.modules if name.split(".")[0] in {ARRAYS} or name.startswith(tuple(f"eddyline.{{one}}" for one in {LATER}))]
assert not loaded, loaded
"""


def test_checking_loads_no_arrays(tmp_path):
    """Most of the time of `eddyline check` is loading: a job of joins, aggregates and declared streams needs no
    arrays."""
    (tmp_path / "job.sql").write_text(JOB.replace("1 + 2", "3"))
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_spark_sources_load_no_kernels():
    program = "import sys, eddyline.runtime.spark.ingest.sources; assert not [m for m in sys.modules if m.split('.')[0] == 'numba']"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
