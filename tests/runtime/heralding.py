"""Streams with heralds among their rows, true ones and lies, and what an oracle makes of them."""

from __future__ import annotations

import re
from random import Random
from typing import Any

Row = dict[str, Any]
SECOND = 1_000_000


def statements(lateness: int, sequence: bool = False, folder: str | None = None, heralds: str = "on") -> str:
    with_ = f"time = 'ts', lateness = '{lateness} seconds'"
    files = "" if folder is None else f", path = '{folder}/a', files_per_batch = 1"
    return f"""
        SET heralds = '{heralds}';
        CREATE STREAM a (v BIGINT, k BIGINT, id BIGINT, said STRING, ts TIMESTAMP)
            WITH ({with_}, herald = 'said'{files}{", sequence = 'id'" if sequence else ""});
        CREATE STREAM b (v BIGINT, k BIGINT, id BIGINT, ts TIMESTAMP) WITH ({with_}{files.replace("/a'", "/b'")});
        CREATE QUERY one AS SELECT id, v FROM a WHERE v >= 4;
        CREATE QUERY less AS SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.v < b.v - 2;
        CREATE QUERY last AS SELECT a.id AS x, b.id AS y FROM a [ROWS 4], b [ROWS 3] WHERE a.k = b.k AND a.v <= b.v;
    """


def random_rows(random: Random, count: int, lateness: int, heralds: bool) -> list[Row]:
    """Rows that are not late; every now and then a herald that says where values of the next rows lie, perhaps
    wrongly."""
    rows: list[Row] = []
    centre = 0
    for place in range(count):
        ts = (place // 3 + random.randint(0, lateness)) * SECOND
        row: Row = {
            "v": None if random.random() < 0.05 else centre + random.randint(0, 3),
            "k": random.randrange(6),
            "id": place,
        }
        if heralds:
            row["said"] = None
            if random.random() < 0.15:
                centre = random.randint(0, 20)
                low, high = centre - (random.random() < 0.3), centre + (3 if random.random() < 0.7 else 1)
                span = f"{random.randint(1, 9)} ROWS" if random.random() < 0.5 else f"{random.randint(0, 6)} SECONDS"
                condition = random.choice(
                    (f"v >= {low} AND v <= {high}", f"v BETWEEN {low} AND {high}", f"v > {low - 1} AND v < {high + 1}")
                )
                row["said"] = f"{condition} FOR {span}"
        elif random.random() < 0.2:
            centre = random.randint(0, 20)
        rows.append({**row, "ts": ts})
    return rows


def judged(rows: list[Row], by: tuple[str, ...] = ("ts",)) -> tuple[list[Row], list[Row]]:
    """The rows that stay, in source order, and the violators."""
    bounds, until_row, until = (0, 0), 0, -1
    seen, dead = 0, set()
    for place in sorted(range(len(rows)), key=lambda n: (*(rows[n][name] for name in by), n)):
        row = rows[place]
        if row["said"] is not None:
            numbers = [int(n) for n in re.findall(r"-?\d+", row["said"])]
            bounds = (numbers[0] + (" > " in row["said"]), numbers[1] - (" < " in row["said"]))
            until_row, until = (
                (seen + numbers[2], -1) if "ROWS" in row["said"] else (0, row["ts"] + numbers[2] * SECOND)
            )
            continue
        covered = seen < until_row or row["ts"] <= until
        seen += 1
        if covered and not (row["v"] is not None and bounds[0] <= row["v"] <= bounds[1]):
            dead.add(place)
    real = [(place, row) for place, row in enumerate(rows) if row["said"] is None]
    return [row for place, row in real if place not in dead], [row for place, row in real if place in dead]
