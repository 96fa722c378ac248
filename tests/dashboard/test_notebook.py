"""HTML of sessions, queries and plans in a notebook, and results as frames."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from eddyline import Session
from eddyline.errors import SettingProblem

JOIN = "SELECT a.v, b.v AS w FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k AND a.v <> 'x<y'"


@pytest.fixture
def session() -> Session:
    session = Session()
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (k BIGINT, v STRING, ts TIMESTAMP) WITH (time = 'ts')")
    session.query("pairs", JOIN)
    return session


def fill(session: Session) -> None:
    for name in "ab":
        session.push(name, [(n, f"<script>{n}</script>", n * 1_000) for n in range(30)])
    session.step()


def test_a_query_shows_rows_and_takes_none(session: Session) -> None:
    query = session.queries["pairs"]
    assert "no rows to take" in query._repr_html_()
    fill(session)
    shown = query._repr_html_()
    assert "&lt;script&gt;0&lt;/script&gt;" in shown and "<script" not in shown and shown.count("<tr>") == 11
    assert "x&lt;y" in shown and "string" in shown
    assert len(query.table()) > 10


def test_a_session_shows_streams_queries_and_state(session: Session) -> None:
    assert "no rows yet" in session._repr_html_()
    fill(session)
    shown = session._repr_html_()
    assert (
        "k BIGINT, v STRING, ts TIMESTAMP" in shown
        and "pairs" in shown
        and "rows stored at most" in shown
        and "<td" in shown
    )


def test_a_plan_is_drawn_before_and_while_it_runs(session: Session) -> None:
    before = session.queries["pairs"].plan
    fill(session)
    plan = session.queries["pairs"].plan
    assert (
        str(plan).startswith("query: pairs\ntree: (a b)") and str(before).splitlines()[1] == str(plan).splitlines()[1]
    )
    for drawn in (before.svg(), plan.svg()):
        root = ElementTree.fromstring(drawn)
        texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"pairs", "join", "a", "b", "[RANGE 10 SECONDS]"} <= set(texts)
        assert any(text is not None and "x<y" in text for text in texts)
    assert plan._repr_html_().startswith("<svg") and "x&lt;y" in plan._repr_html_()


def test_patterns_and_templates_are_drawn_too(session: Session) -> None:
    session.execute("CREATE TEMPLATE counts AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k")
    fill(session)
    assert "counts" in session.queries["counts"].plan.svg()


def test_results_as_frames(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    query = session.queries["pairs"]
    fill(session)
    assert list(query.to_pandas().columns) == ["v", "w", "_ts"]
    monkeypatch.setattr("eddyline.runtime.front.query.find_spec", lambda name: None)
    for convert in (query.to_pandas, query.to_polars):
        with pytest.raises(SettingProblem, match="is not installed"):
            convert()
