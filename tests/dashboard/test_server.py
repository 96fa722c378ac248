"""The interface of a dashboard: its checks of requests, its responses, and its records for the job."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from eddyline import Session
from eddyline.dashboard.server import serve
from eddyline.dashboard.vocabulary import KEYWORDS
from eddyline.errors import UserError
from tests.dashboard.asking import Client, wait_until

STREAMS = """CREATE STREAM a (k BIGINT, v STRING, ts TIMESTAMP) WITH (time = 'ts');
             CREATE STREAM b (k BIGINT, w BIGINT, ts TIMESTAMP) WITH (time = 'ts');
             CREATE TEMPLATE sums AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Client, str]]:
    folder = str(tmp_path_factory.mktemp("job") / "state")
    with Session(checkpoint=folder) as session:
        session.execute(STREAMS)
        session.query("pairs", "SELECT a.v, b.w FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k")
        client = Client(session.dashboard())
        session.start()
        push(session, 0)
        wait_until(lambda: client.send("GET", "/api/report")[0] == 200)
        yield session, client, folder


def push(session: Session, first: int) -> None:
    rows = [(n % 7, f"<script>alert({n})</script>", n * 100_000) for n in range(first, first + 50)]
    session.push("a", rows)
    session.push("b", [(k, n, ts) for n, (k, _, ts) in enumerate(rows)])


def test_nothing_is_shown_without_the_token(job: tuple[Session, Client, str]) -> None:
    _, client, folder = job
    for path in (
        "/",
        "/page/main.js",
        "/events",
        "/metrics",
        "/api/report",
        "/api/history",
        "/api/queries",
        "/nothing",
    ):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "eddyline-000000000000=wrong"}):
            status, _, body = client.send("GET", path, headers=headers, token=False)
            assert status == 401 and b"token" in body, path
        assert client.send("GET", f"{path}?token=wrong", token=False)[0] == 401
    assert client.send("POST", "/api/drop", b"{}", token=False)[0] == 401
    kept = Path(folder, "dashboard", "token")
    assert kept.read_text().strip() == client.token and stat.S_IMODE(os.stat(kept).st_mode) == 0o600


def test_the_token_of_the_address_becomes_a_cookie(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    status, headers, body = client.send("GET", f"/?token={client.token}", token=False)
    assert status == 200 and body.startswith(b"<!doctype html>")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert client.send("GET", "/api/report", headers={"Cookie": cookie.split(";")[0]}, token=False)[0] == 200
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
    assert "access-control-allow-origin" not in {name.lower() for name in headers}
    assert client.token.encode() not in body


def test_other_origins_are_refused(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    body, kind = b'{"queries": ["pairs"]}', {"Content-Type": "application/json"}
    for headers in (
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "elsewhere.example"},
    ):
        assert client.send("POST", "/api/drop", body, {**kind, **headers})[0] == 403, headers
        assert client.send("GET", "/api/report", headers=headers)[0] == 403, headers
    assert client.send("POST", "/api/drop", body, {"Content-Type": "text/plain"})[0] == 400
    assert client.send("GET", "/api/report", headers={"Origin": f"http://127.0.0.1:{client.port}"})[0] == 200


def test_files_outside_of_the_page_are_not_served(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    for path in (
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/vendor/../../app.py",
        "/page//etc/passwd",
        "/page/.hidden",
        "/page/vendor",
    ):
        assert client.send("GET", path)[0] == 404, path


def test_the_report_is_the_jobs(job: tuple[Session, Client, str]) -> None:
    session, client, _ = job
    wait_until(lambda: client.get("/api/report")["stats"]["rows_in"]["a"] >= 50)
    push(session, 50)
    found = wait_until(lambda: (one := client.get("/api/report"))["stats"]["rows_in"]["a"] >= 100 and one)
    assert found["format"] == 1 and found["engine"] == "embedded" and found["running"]
    stats = session.stats()
    for key in ("rows_in", "late", "bad", "results", "probes", "peak_stored_rows"):
        assert found["stats"][key] == stats[key], key
    history = client.get("/api/history?seconds=600")["points"]
    assert history and history[-1]["rows"]["a"] >= 50 and history[-1]["t"] <= found["written"] + 60
    table = client.get("/api/queries")
    assert table["names"] == ["sums", "pairs"] or set(table["names"]) == {"pairs", "sums"}
    assert "SELECT" in table["sql"][table["names"].index("pairs")]


def test_events_bring_the_overview_and_the_query(job: tuple[Session, Client, str]) -> None:
    session, client, _ = job
    with client.events("/events?query=pairs") as events:
        kind, first = next(events)
        assert kind == "overview" and first["running"] and first["queries"] == 2
        for number in range(40):
            push(session, 100 + 50 * number)
            kind, news = next(events)
            if kind == "query" and news.get("drawing") and news["tail"] and news["tail"]["rows"]:
                break
        else:
            raise AssertionError("no drawing came")
    assert news["drawing"].startswith("<svg") and "<script" not in news["drawing"]
    assert news["plan"].startswith("query: pairs") and news["tail"]["columns"] == ["v", "w", "_ts"]
    assert news["tail"]["rows"][-1][0].startswith("<script>")


def test_metrics_are_prometheus_text(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    status, headers, body = client.send("GET", "/metrics")
    text = body.decode()
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    assert (
        "eddyline_up 1.0" in text
        and 'eddyline_rows_total{stream="a"}' in text
        and 'eddyline_results_total{query="pairs"}' in text
    )
    counts = [float(line.split()[1]) for line in text.splitlines() if line.startswith("eddyline_epoch_seconds_bucket")]
    assert counts == sorted(counts) and 'eddyline_epoch_seconds_bucket{le="+Inf"}' in text
    epochs, whole = _figure(text, "eddyline_epochs_total"), _figure(text, "eddyline_epoch_seconds_count")
    assert epochs == whole == counts[-1] > 0
    assert _figure(text, "eddyline_epoch_seconds_sum") == pytest.approx(_figure(text, "eddyline_busy_seconds_total"))
    assert (
        _figure(text, "eddyline_response_seconds_count") == _figure(text, 'eddyline_results_total{query="pairs"}') > 0
    )
    assert 'eddyline_newest_seconds{stream="a"}' in text and _figure(text, 'eddyline_failed{part="sink"}') == 0
    documented = Path(__file__).parents[2].joinpath("docs", "dashboard.md").read_text()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            assert f"`{line.split()[2]}`" in documented, line


def _figure(text: str, name: str) -> float:
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name + " ")))


def test_the_words_of_a_job_are_listed(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    found = client.get("/api/vocabulary")
    assert {"name": "k", "type": "BIGINT"} in found["streams"][0]["columns"]
    (template,) = found["templates"]
    assert (template["name"], template["keys"], template["unit"]) == ("sums", [{"name": "k", "type": "BIGINT"}], "time")
    assert template["aggregates"] == [{"name": "n", "type": "BIGINT"}]
    functions = {one["name"]: one["signature"] for one in found["functions"]}
    assert (
        functions["round"] == "round(x [, digits])" and functions["count_if"] == "count_if(c)" and "+" not in functions
    )
    assert {"SELECT", "EMIT EVERY", "REQUEST"} <= set(found["keywords"]) and "pairs" in found["queries"]
    assert [one["name"] for one in found["settings"] if one["changes"]] == ["purge", "propagate"]


def test_the_words_that_are_offered_are_words_of_the_language() -> None:
    docs = Path(__file__).parents[2] / "docs"
    words = {word for path in docs.rglob("*.md") for word in re.findall(r"\b[A-Z]+\b", path.read_text())}
    assert [one for one in KEYWORDS if not set(one.split()) <= words] == []


def test_triggers_of_a_query_are_set(job: tuple[Session, Client, str]) -> None:
    session, client, _ = job
    status, found = client.post("/api/set", {"query": "pairs", "settings": {"purge": "100"}})
    assert (status, found["query"], found["settings"]) == (200, "pairs", {"purge": "100"})
    push(session, 2_900)
    wait_until(lambda: client.get(f"/api/record?number={found['record']}")["state"] == "taken")
    for body in (
        {"query": "pairs", "settings": {"plan": "mjoin"}},
        {"query": "pairs", "settings": {"purge": 100}},
        {"query": "pairs", "settings": ["purge"]},
        {"query": "nothing", "settings": {"purge": "100"}},
        {"query": "pairs", "settings": {}},
    ):
        status, found = client.post("/api/set", body)
        assert status == 400 and found["error"]["message"], body


def test_a_query_is_tried_seen_and_dropped(job: tuple[Session, Client, str]) -> None:
    session, client, _ = job
    status, found = client.post("/api/try", {"sql": "SELECT k,\n  v FROM a WHERE k = 3;"})
    assert status == 200, found
    (name,) = found["queries"]
    wait_until(lambda: client.get(f"/api/record?number={found['record']}")["state"] == "taken")
    for first in range(3000, 3200, 50):
        push(session, first)
    rows = wait_until(lambda: (client.get("/api/report")["tails"].get(name) or {}).get("rows"))
    assert rows[-1][0] == 3
    assert client.post("/api/renew", {"query": name}) == (200, {"query": name, "seconds": 30})
    assert client.post("/api/renew", {"query": "pairs"})[0] == 400
    assert client.post("/api/drop", {"queries": [name]})[0] == 200
    for first in range(3200, 3400, 50):
        push(session, first)
    wait_until(lambda: name not in client.get("/api/queries")["names"])
    assert [e["kind"] for e in client.get("/api/decisions")["events"] if e.get("query") == name] == ["added", "dropped"]


def test_mistakes_come_back_in_the_engines_words(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    status, found = client.post("/api/try", {"sql": "SELECT k,\n  nothing FROM a"})
    assert status == 400
    error = found["error"]
    assert "nothing" in error["message"] and (error["line"], error["column"]) == (2, 3) and error["detail"]
    status, found = client.post("/api/add", {"sql": "CREATE STREAM x (k BIGINT, ts TIMESTAMP) WITH (time = 'ts')"})
    assert status == 400 and "running job" in found["error"]["message"]
    for path, body in (
        ("/api/add", {}),
        ("/api/drop", {"queries": []}),
        ("/api/drop", {"queries": ["unknown"]}),
        ("/api/request", {"text": "x"}),
    ):
        status, found = client.post(path, body)
        assert status == 400 and found["error"]["message"], path
    assert client.send("POST", "/api/add", b"{", {"Content-Type": "application/json"})[0] == 400
    assert client.send("POST", "/api/add", b"[" * 2_000_000, {"Content-Type": "application/json"})[0] == 400


def test_templates_are_asked(job: tuple[Session, Client, str]) -> None:
    _, client, _ = job
    status, found = client.post("/api/request", {"text": "REQUEST k, n FROM sums WHERE k = 3 GROUP BY k"})
    assert status == 200, found
    (answer,) = found["answers"]
    assert answer["columns"] == ["k", "n", "_ts"] and answer["rows"][0][0] == 3 and answer["rows"][0][1] > 0


def test_a_readonly_dashboard_sends_nothing(job: tuple[Session, Client, str]) -> None:
    _, _, folder = job
    server = serve(folder, readonly=True)
    server.start()
    try:
        client = Client(server.address)
        assert client.get("/api/about")["readonly"]
        for path in ("try", "add", "drop", "set", "renew", "request"):
            assert client.post(f"/api/{path}", {"sql": "SELECT 1", "queries": ["pairs"]})[0] == 403
    finally:
        server.stop()


def test_hosts_that_others_reach_need_a_token_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="token of your own"):
        serve(str(tmp_path), host="0.0.0.0")
    short = tmp_path / "short"
    short.write_text("abc")
    with pytest.raises(UserError, match="cannot be used"):
        serve(str(tmp_path), host="0.0.0.0", token_file=str(short))
    own = tmp_path / "own"
    own.write_text("a-token-of-my-own-0123456789\n")
    server = serve(str(tmp_path), host="0.0.0.0", token_file=str(own))
    server.start()
    try:
        client = Client(f"http://127.0.0.1:{server.port}/?token=a-token-of-my-own-0123456789")
        assert client.get("/api/overview") == {"sequence": 0, "running": False, "engine": None}
        found = client.get("/api/vocabulary")
        assert found["streams"] == found["queries"] == [] and found["functions"] and found["keywords"]
    finally:
        server.stop()
    taken = serve(str(tmp_path))
    with pytest.raises(UserError, match="cannot listen"):
        serve(str(tmp_path), port=taken.port)
    taken.stop()


def test_pages_that_close_leave_nothing(job: tuple[Session, Client, str]) -> None:
    session, client, folder = job
    broadcast = session._served[0].dashboard.broadcast
    with client.events() as one, client.events("/events?query=pairs") as two:
        next(one), next(two)
        assert len(broadcast.pages) == 2
        assert os.listdir(os.path.join(folder, "dashboard", "wanted"))
    push(session, 9_000)
    wait_until(lambda: not broadcast.pages and broadcast._task is None)
    wait_until(lambda: not os.listdir(os.path.join(folder, "dashboard", "wanted")))


def test_a_session_without_a_checkpoint_has_a_dashboard_too() -> None:
    with Session() as session:
        session.execute(STREAMS)
        session.query("all", "SELECT v FROM a")
        push(session, 0)
        session.step()
        client = Client(session.dashboard())
        session.start()
        push(session, 50)
        wait_until(
            lambda: client.send("GET", "/api/report")[0] == 200 and client.get("/api/report")["stats"]["results"]["all"]
        )
        assert client.post("/api/add", {"sql": "CREATE QUERY more AS SELECT k FROM a WHERE k = 1"})[0] == 200
        wait_until(lambda: "more" in client.get("/api/queries")["names"])
    with pytest.raises(OSError):
        client.get("/api/report")
