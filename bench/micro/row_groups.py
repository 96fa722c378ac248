"""Row groups that no query can use: how much less CPU time it takes not to read them.

Answer   CPU time with `experiment.row_groups` off, divided by that with it on, in turns; the median. `ordered`: rows in
         the order of time, a filtered column that is constant over stretches of several row groups, of which one in a
         hundred matches. `shuffled`: the same values in any order, so that every row group is read. All columns are
         selected.
Reading  `python -m bench.micro.row_groups [--columns N] [--groups N] [--rows N] [--rounds N]`
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from eddyline import Session

#: Row groups of one value.
STRETCH = 4
#: One value in so many matches.
VALUES = 100


def written(path: Path, columns: int, groups: int, rows: int, shuffled: bool) -> str:
    """A file; the columns of a stream over it."""
    path.parent.mkdir()
    draws, count = np.random.default_rng(7), groups * rows
    key = np.arange(count) // (rows * STRETCH) % VALUES
    if shuffled:
        draws.shuffle(key)
    table = {"k": key, "ts": pa.array(np.arange(count) * 1_000, pa.timestamp("us"))}
    table |= {f"c{number}": draws.integers(0, 1_000_000, count) for number in range(columns - 2)}
    parquet.write_table(pa.table(table), path, row_group_size=rows)
    return ", ".join(f"{name} {'TIMESTAMP' if name == 'ts' else 'BIGINT'}" for name in table)


def seconds(folder: Path, declared: str, row_groups: str) -> tuple[float, int, dict[str, int]]:
    """CPU seconds of a run, its results, and what became of its row groups."""
    with Session(keep_results=False) as session:
        session.execute(f"SET experiment.row_groups = '{row_groups}'")
        session.execute(
            f"CREATE STREAM s ({declared}) WITH (format = 'parquet', path = '{folder}', time = 'ts');"
            "CREATE QUERY q AS SELECT * FROM s WHERE k = 42"
        )
        began = process_time()
        session.run()
        taken = process_time() - began
        stats = session.stats()
    return taken, stats["results"]["q"], stats["row_groups"]["s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("columns", 100), ("groups", 400), ("rows", 5_000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eddyline-row-groups-") as folder:
        for kind in ("ordered", "shuffled"):
            path = Path(folder) / kind / "1.parquet"
            declared = written(path, given.columns, given.groups, given.rows, kind == "shuffled")
            seconds(path.parent, declared, "on")
            ratios, groups = [], {}
            for number in range(given.rounds):
                order = ("off", "on") if number % 2 else ("on", "off")
                found = {mode: seconds(path.parent, declared, mode) for mode in order}
                assert found["on"][1] == found["off"][1], "both answer the same"
                groups = found["on"][2]
                ratios.append(found["off"][0] / found["on"][0])
            print(f"{kind:9} off / on: {median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f}), {groups}")


if __name__ == "__main__":
    main()
