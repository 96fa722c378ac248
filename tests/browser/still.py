"""The folder of a job that has ended, made by hand: two hours of history, old and new streams, dead letters of every
kind. What the page shows of it does not move while a test looks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.runtime.reporting.places import ReportPlaces, read_json
from eddyline.runtime.reporting.samples import DeadSamples

#: Seconds of history, and between two of its lines.
SPAN, STEP = 7_200, 20


def still_job(state: str, folder: Path) -> str:
    """Make the folder of a report that a live job has written; stream bids replays rows of last month."""
    found, made = ReportPlaces(state), ReportPlaces(str(folder))
    made.make()
    document, now = read_json(found.report), time.time()
    document |= {"written": now, "state_of_job": "ended", "dead": dead_letters()}
    for name, stream in document["streams"].items():
        stream["newest"] = stream["horizon"] = int((now - (30 * 86_400 if name == "bids" else 2)) * 1e6)
    Path(made.report).write_text(json.dumps(document))
    Path(made.queries).write_text(Path(found.queries).read_text())
    last = json.loads(Path(found.overview).read_text().splitlines()[-1])
    with open(made.overview, "w", encoding="utf-8") as file:
        for number in range(SPAN // STEP):
            file.write(json.dumps(line(last, document, number, now - SPAN + number * STEP)) + "\n")
    return str(folder)


def line(last: dict[str, Any], document: dict[str, Any], number: int, t: float) -> dict[str, Any]:
    behind = {name: int((t - (30 * 86_400 if name == "bids" else 2)) * 1e6) for name in last["newest"]}
    return {
        **last, "t": t, "run": document["started"], "rows": {name: number * 10 * (place + 1) for place, name in enumerate(last["rows"])},
        "results": number * 7, "epochs": number, "newest": behind, "horizons": behind, "frontier": min(behind.values()),
        "memory": 1_000_000 * number,
    }  # fmt: skip


def dead_letters() -> dict[str, Any]:
    dead = DeadSamples()
    for n in range(40):
        reasons = [
            f"late: event time lies before 2026-11-19T03:45:{n:02d}, the newest seen minus lateness; missed by early",
            f"bad: {n:06d}.jsonl line {n}: column item is declared as BIGINT and holds 'word {n}'",
        ]
        dead.take({"bids": [pa.table({"item": [str(n), f"word {n}"], "_reason": reasons})]})
    return dead.as_json()
