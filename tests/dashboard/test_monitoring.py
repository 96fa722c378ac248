"""The alert rules and the Grafana dashboard of docs/monitoring: what they name exists, and Debian's real Prometheus takes
them, scrapes real jobs that are in trouble, and fires."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from eddyline import Session
from eddyline.errors import EddylineError
from tests import needs
from tests.dashboard.asking import Client, wait_until

ROOT = Path(__file__).parents[2]
RULES, BOARD = (ROOT / "docs" / "monitoring" / name for name in ("eddyline.rules.yml", "eddyline.grafana.json"))
#: What Grafana puts into the place of its variables, for an expression that Prometheus reads alone.
VARIABLES = {"$__rate_interval": "1m", "$job": ".*", "$instance": ".*"}
STREAMS = """CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '1 second');
             CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', lateness = '1 second');
             CREATE STREAM held (k BIGINT, ts TIMESTAMP) WITH (time = 'ts');
             SET memory_budget = '100 kB'; SET over_budget = 'warn'"""
JOIN = "SELECT a.k FROM a [RANGE 10 MINUTES], b [RANGE 10 MINUTES] WHERE a.k = b.k"


def expressions() -> list[str]:
    """Those of the panels, as Prometheus reads them."""
    found = [target["expr"] for panel in json.loads(BOARD.read_text())["panels"] for target in panel["targets"]]
    for name, value in VARIABLES.items():
        found = [one.replace(name, value) for one in found]
    return found


def test_every_metric_that_rules_and_panels_name_is_documented() -> None:
    text = (ROOT / "docs" / "dashboard.md").read_text()
    documented = set(re.findall(r"`(eddyline_\w+)`", text))
    documented |= {f"{name}_bucket" for name in documented}
    used = set(re.findall(r"eddyline_\w+", " ".join([RULES.read_text(), *expressions()])))
    assert used and used <= documented, used - documented


def test_every_alert_is_explained() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert len(alerts) == 8 and all(f"`{name}`" in text for name in alerts)


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    taken = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) == 23


def test_the_rules_say_what_they_should_of_made_up_figures(tmp_path: Path) -> None:
    needs.prometheus()
    told = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, timeout=240)
    assert told.returncode == 0 and "8 rules found" in told.stdout, told
    cases = Path(__file__).parent / "alerts.test.yml"
    told = subprocess.run(["promtool", "test", "rules", str(cases)], capture_output=True, text=True, timeout=240)
    assert told.returncode == 0, told
    # With a rule that says something else the same cases fail.
    (tmp_path / "rules.yml").write_text(RULES.read_text().replace("> 0.01", "> 0.5"))
    (tmp_path / "cases.yml").write_text(
        cases.read_text().replace("../../docs/monitoring/eddyline.rules.yml", "rules.yml")
    )
    told = subprocess.run(["promtool", "test", "rules", str(tmp_path / "cases.yml")], capture_output=True, timeout=240)
    assert told.returncode == 1


@pytest.mark.slow
def test_prometheus_scrapes_jobs_in_trouble_and_fires(tmp_path: Path) -> None:
    needs.prometheus()
    stop = threading.Event()
    with Session(checkpoint=str(tmp_path / "slow")) as session, failing(tmp_path / "failing") as failed:
        session.execute(STREAMS)
        session.query("pairs", JOIN)
        session.query("state", "SELECT x.k FROM held [RANGE 1 HOUR] x, held [RANGE 1 HOUR] y WHERE x.k = y.k")
        client = Client(session.dashboard())
        session.start()
        feeder = threading.Thread(target=feed, args=(session, stop))
        feeder.start()
        try:
            wait_until(lambda: client.send("GET", "/api/report")[0] == 200)
            with prometheus(tmp_path, {"eddyline": client, "eddyline-failing": failed}) as ask:
                wanted = set(re.findall(r"alert: (\w+)", RULES.read_text())) - {"EddylineJobFailed"}
                wait_until(lambda: firing(ask) >= wanted)
                assert "EddylineJobFailed" not in firing(ask)
                targets = {one["labels"]["job"]: one["health"] for one in ask("targets")["activeTargets"]}
                assert targets == {"eddyline": "up", "eddyline-failing": "up", "eddyline-gone": "down"}
                for one in expressions():
                    ask(f"query?query={quote(one)}")
        finally:
            stop.set()
            feeder.join()


@contextmanager
def failing(folder: Path) -> Iterator[Client]:
    """A job whose callback fails; its dashboard stays."""
    session = Session(checkpoint=str(folder))
    session.execute(STREAMS)
    session.query("all", "SELECT k FROM a")
    session.on_results("all", lambda table: 1 / 0)
    client = Client(session.dashboard())
    with pytest.raises(EddylineError, match="could not be handed over"):
        session.push("a", [(n, n * 1_000_000) for n in range(10)])
        session.run()
    try:
        yield client
    finally:
        with pytest.raises(EddylineError):
            session.stop()


def feed(session: Session, stop: threading.Event) -> None:
    """Rows of ten minutes ago whose answers wait for a stream that stands still, late ones among them, and much state."""
    begin = int((time.time() - 900) * 1e6)
    session.push("b", [(0, begin - 600 * 1_000_000)])
    session.push("held", [(n, begin - 600 * 1_000_000 + n) for n in range(20_000)])
    while not stop.is_set():
        now = int((time.time() - 600) * 1e6)
        session.push("a", [(n, now + n) for n in range(500)])
        session.push("a", [(n, now - 3_600_000_000) for n in range(50)])
        stop.wait(0.5)


def firing(ask: Any) -> set[str]:
    return {one["labels"]["alertname"] for one in ask("alerts")["alerts"] if one["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, clients: dict[str, Client]) -> Iterator[Any]:
    """A real Prometheus that scrapes these dashboards each second; minutes of the rules are seconds. The third target
    is a port on which nothing listens."""
    (folder / "rules.yml").write_text(re.sub(r"\b(\d+)m\b", r"\1s", RULES.read_text()))
    jobs = [scraped(name, f"{one.host}:{one.port}", one.token) for name, one in clients.items()]
    jobs.append(scraped("eddyline-gone", f"127.0.0.1:{free_port()}", "none"))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": jobs,
    }
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with open(folder / "prometheus.log", "w") as log:
        process = subprocess.Popen([str(shutil.which("prometheus")), *options], stderr=log, stdout=log)

    def ask(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=60) as answer:
                found = json.loads(answer.read())
        except ConnectionError:
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            raise
        assert found["status"] == "success", (path, found)
        return found["data"]

    def is_ready() -> bool:
        try:
            return bool(ask("status/buildinfo"))
        except OSError:
            return False

    try:
        wait_until(is_ready)
        yield ask
    finally:
        process.terminate()
        process.wait(60)


def scraped(name: str, target: str, token: str) -> dict[str, Any]:
    return {"job_name": name, "authorization": {"credentials": token}, "static_configs": [{"targets": [target]}]}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
