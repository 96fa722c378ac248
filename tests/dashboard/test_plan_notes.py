"""Notes on the parts of a drawn plan: counts and rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eddyline import Session
from eddyline.dashboard.feed import Feed
from eddyline.dashboard.plan_notes import plan_notes
from eddyline.plan.picture import draw, name_of
from eddyline.plan.shape import Part
from eddyline.runtime.reporting.places import ReportPlaces, read_json


def looked_at(folder: Path) -> tuple[Feed, dict[str, Any]]:
    """A job that ended while a page showed its join."""
    places = ReportPlaces(str(folder))
    with Session(checkpoint=str(folder)) as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        session.query(
            "q",
            "SELECT a.k FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR], c [RANGE 1 HOUR] WHERE a.k = b.k AND b.k = c.k AND a.v >= 25",
            plan="((a b) c)",
        )
        for name in "abc":
            session.push(name, [(n % 5, n, n * 1_000) for n in range(50)])
        session.step()
        Path(places.wanted, "page.json").write_text(json.dumps(["q"]))
        session.run()
    feed = Feed(str(folder))
    assert feed.refresh() and feed.document is not None
    return feed, feed.document


def test_notes_are_the_figures_of_the_report(tmp_path: Path) -> None:
    feed, document = looked_at(tmp_path / "state")
    shape = Part.of(document["details"]["q"]["shape"])
    top = shape.inputs[0]
    below = next(part for part in top.inputs if part.kind == "join")
    figures = document["stats"]["operators"][below.key]
    notes = plan_notes(feed, shape)
    assert f"{document['stores'][below.key]:,} rows stored" in notes[name_of(below)].lines
    assert notes[name_of(below)].edge.startswith(f"{figures['rows_out']:,} rows")
    assert notes["stream a"].edge == "25 rows · 50 %" and notes["stream b"].edge == "50 rows · 100 %"
    assert f"{document['stats']['results']['q']:,} results" in notes[name_of(shape)].lines
    drawn = draw(shape, notes)
    assert drawn.count('class="part') == 6 and "50 rows" in drawn


def test_demand_zones_and_punctuations_are_written_where_they_are(tmp_path: Path) -> None:
    feed, document = looked_at(tmp_path / "state")
    shape = Part.of(document["details"]["q"]["shape"])
    key = next(part for part in shape.inputs[0].inputs if part.kind == "join").key
    edge = {"state": "listening", "suspensions": 9, "resumptions": 2, "partials_avoided": {"estimate": 40}}
    document["stats"] |= {"punctuations": {"a": 3}, "violations": {"a": 1}}
    for demand in ({key: edge}, {f"{key} admission": edge}, {"0": {key: edge}, "1": {}}):
        document["stats"]["demand"] = demand
        notes = plan_notes(feed, shape, {"zones_skipped": 1234})
        assert {"demand: listens", "held back 7, about 40 not made"} <= set(notes[f"join {key}"].lines)
    assert "zones skipped 1,234" in notes[name_of(shape.inputs[0])].lines
    assert {"3 punctuations", "1 rows broke one"} <= set(notes["stream a"].lines)
    assert read_json(ReportPlaces(str(tmp_path / "state")).report)["details"].keys() == {"q"}
