"""How many functions and files of the package a row's way goes through: a two-way window join over parquet, embedded.

Answer   The job of docs/life-of-a-row.md runs twice in this process, as `eddyline run --once --no-final` runs it. The
         second time every function of the package is counted that is called between the beginning of the driver's loop
         and its end, when the results are files. What a process does once, such as loading compiled kernels, is in the
         first.
Limits   Comprehensions, lambdas and functions within functions are counted as part of the function around them.

python -m bench.micro.functions             the two counts
python -m bench.micro.functions --list      and the functions of each file
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from types import CodeType, FrameType

import pyarrow as pa
import pyarrow.parquet as parquet

import eddyline
from eddyline.cli.__main__ import main
from eddyline.runtime.embedded.driver import EmbeddedDriver

PACKAGE = str(Path(eddyline.__file__).parent)
JOB = """
CREATE STREAM auctions (item BIGINT, seller STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'auctions', time = 'ts');
CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (format = 'parquet', path = 'bids', time = 'ts');
CREATE QUERY sold AS
  SELECT a.seller, b.price FROM auctions [RANGE 5 SECONDS] a, bids [RANGE 5 SECONDS] b
  WHERE a.item = b.item AND b.price > 100;
"""


def second(n: int) -> datetime:
    return datetime(2024, 1, 1, 12) + timedelta(seconds=n)


def write_job(folder: Path) -> None:
    rows = {
        "auctions": {"item": [7, 8], "seller": ["ada", "bob"], "ts": [second(0), second(4)]},
        "bids": {"item": [7, 9, 8], "price": [120.0, 500.0, 80.0], "ts": [second(3), second(5), second(6)]},
    }
    for name, columns in rows.items():
        (folder / name).mkdir(parents=True)
        parquet.write_table(pa.table(columns), folder / name / "1.parquet")
    (folder / "job.sql").write_text(JOB)


def called(folder: Path) -> dict[str, set[str]]:
    """File -> the functions in it that are called while the driver runs a job in this folder."""
    seen: set[CodeType] = set()
    run = EmbeddedDriver.run

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    def watched(driver: EmbeddedDriver, *arguments: bool) -> None:
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            run(driver, *arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    write_job(folder)
    before = os.getcwd()
    os.chdir(folder)
    EmbeddedDriver.run = watched  # type: ignore[method-assign]
    try:
        assert main(["run", "job.sql", "--once", "--no-final", "--quiet", "--out", "results"]) == 0
    finally:
        EmbeddedDriver.run = run  # type: ignore[method-assign]
        os.chdir(before)
    found = parquet.read_table(folder / "results" / "sold").to_pylist()
    assert found == [{"seller": "ada", "price": 120.0, "_ts": second(3)}], found
    files: dict[str, set[str]] = defaultdict(set)
    for code in seen:
        if code.co_filename.startswith(PACKAGE) and "<" not in code.co_qualname:
            files[os.path.relpath(code.co_filename, PACKAGE)].add(code.co_qualname)
    return files


def counted() -> dict[str, set[str]]:
    with tempfile.TemporaryDirectory() as place:
        called(Path(place) / "first")
        return called(Path(place) / "second")


if __name__ == "__main__":
    files = counted()
    if "--list" in sys.argv:
        for name in sorted(files):
            print(f"{name}: {', '.join(sorted(files[name]))}")
    print(f"{sum(map(len, files.values()))} functions in {len(files)} files")
