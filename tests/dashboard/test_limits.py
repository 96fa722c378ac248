"""What strangers and pages cannot do to a job: take its file handles, make its process print tracebacks, or keep it
busy."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.dashboard import connections
from eddyline.dashboard.server import serve
from tests import forks
from tests.dashboard.asking import Client, wait_until
from tests.seeds import first_seed

STREAM = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (format = 'jsonl', path = '{}', time = 'ts');\n"
COMMAND = (sys.executable, "-m", "eddyline", "run", "job.sql", "--checkpoint", "state", "--out", "out", "--quiet")
#: Connections that never send a byte, at most.
SILENT = 2_000


@contextlib.contextmanager
def running(folder: Path, handles: int = 256, where: str = "0") -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A job in a process of its own, with few file handles."""
    (folder / "data").mkdir()
    (folder / "job.sql").write_text(STREAM.format(folder / "data") + "CREATE QUERY q AS SELECT k FROM a;")
    command = ["bash", "-c", f'umask 022; ulimit -n {handles}; exec "$@"', "bash", *COMMAND, "--dashboard", where]
    with open(folder / "errors", "w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        yield process, Client(process.stdout.readline().removeprefix("dashboard: ").strip())
    finally:
        process.kill()
        process.communicate()


def feed(folder: Path, number: int) -> None:
    rows = "".join(
        json.dumps({"k": 10 * number + n, "ts": f"2026-01-01 00:00:{number:02d}.{n}"}) + "\n" for n in range(10)
    )
    (folder / "data" / f".{number}").write_text(rows)
    os.rename(folder / "data" / f".{number}", folder / "data" / f"{number}.jsonl")


def answers(client: Client) -> bool:
    with contextlib.suppress(OSError):
        return bool(client.send("GET", "/api/report")[0] == 200)
    return False


@pytest.fixture
def many_handles() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(SILENT + 500, before[1])), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
@pytest.mark.parametrize(("handles", "silent"), [(128, 300), pytest.param(256, SILENT, marks=pytest.mark.long)])
def test_silent_connections_do_not_take_the_handles_of_the_job(
    tmp_path: Path, many_handles: None, handles: int, silent: int
) -> None:
    with running(tmp_path, handles) as (process, client), contextlib.ExitStack() as held:
        feed(tmp_path, 1)
        wait_until(lambda: answers(client))
        most = 0
        for number in range(silent):
            connection = held.enter_context(socket.socket())
            connection.settimeout(240)
            connection.connect((client.host, client.port))
            if number % 4 == 0:
                # The head of a request that never ends.
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            if number % 50 == 0:
                # The system makes connections wait a second where the server has not yet taken the last 128.
                time.sleep(0.05)
                most = max(most, len(os.listdir(f"/proc/{process.pid}/fd")))
        assert most < handles // 2
        # The job goes on while they are open, and so does the page.
        feed(tmp_path, 2)
        wait_until(lambda: answers(client) and client.get("/api/report")["stats"]["rows_in"]["a"] == 20)
        held.close()
        wait_until(lambda: answers(client))
        assert client.get("/api/report")["running"]
        feed(tmp_path, 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=240) == 0
    assert forks.run([*COMMAND, "--once"], cwd=tmp_path, timeout=240).returncode == 0
    assert parquet.read_table(tmp_path / "out" / "q").column("k").to_pylist() == list(range(10, 40))
    assert (tmp_path / "errors").read_text() == ""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A page about nothing, with four places and a short patience."""
    monkeypatch.setattr(connections, "_MOST", 4)
    monkeypatch.setattr(connections, "WAIT_SECONDS", 1.0)
    server = serve(str(tmp_path / "state"))
    server.start()
    yield Client(server.address)
    server.stop()


def opened(client: Client, text: bytes = b"") -> socket.socket:
    found = socket.create_connection((client.host, client.port), timeout=240)
    found.sendall(text)
    return found


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(240)
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    return True


def test_a_connection_without_a_request_is_closed(served: Client) -> None:
    head = f"POST /api/add HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.token}\r\nContent-Length: 9\r\n".encode()
    # Silent; half of a head; a body that a stranger does not end; a second request that does not come.
    texts = (
        b"",
        head,
        head.replace(b"Bearer", b"Wrong") + b"\r\n{",
        head.replace(b"POST", b"GET").replace(b"9", b"0") + b"\r\n",
    )
    for one in [opened(served, text) for text in texts]:
        with one:
            assert is_closed(one)
    assert served.send("GET", "/api/about")[0] == 200


def test_pages_keep_their_places_and_the_oldest_silent_connection_leaves(served: Client) -> None:
    with contextlib.ExitStack() as held:
        pages = [held.enter_context(served.events()) for _ in range(3)]
        assert all(next(page)[0] == "overview" for page in pages)
        silent = [held.enter_context(opened(served)) for _ in range(10)]
        assert served.send("GET", "/api/about")[0] == 200
        assert all(is_closed(one) for one in silent)
        fourth = held.enter_context(served.events())
        next(fourth)
        # All places are taken by requests under way: a further one is not served.
        with pytest.raises(OSError):
            served.send("GET", "/api/about")
    wait_until(lambda: answers_about(served))


def answers_about(client: Client) -> bool:
    with contextlib.suppress(OSError):
        return bool(client.send("GET", "/api/about")[0] == 200)
    return False


def test_handles_are_left_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for handles, places in ((256, 32), (1024, 100), (resource.RLIM_INFINITY, 100), (4, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, handles=handles: (handles, handles))
        assert connections.most_connections() == places
    monkeypatch.undo()


@pytest.mark.slow
def test_another_loopback_address_answers_and_the_folder_is_private(tmp_path: Path) -> None:
    with running(tmp_path, where="127.0.0.2:0") as (_, client):
        assert client.host == "127.0.0.2"
        feed(tmp_path, 1)
        wait_until(lambda: answers(client))
        same = {"Origin": f"http://127.0.0.2:{client.port}", "Content-Type": "application/json"}
        assert client.send("POST", "/api/drop", b'{"queries": ["no"]}', same)[0] == 400
        assert client.send("POST", "/api/drop", b"{}", same | {"Origin": f"http://127.0.0.1:{client.port}"})[0] == 403
        for folder in ("state", "state/dashboard", "state/dashboard/wanted"):
            assert stat.S_IMODE(os.stat(tmp_path / folder).st_mode) == 0o700, folder


#: The parts of the names, hosts and origins that this test draws.
PARTS = ["[", "]", "::1", "127.0.0.1", "localhost", ":", "65536", "99999999", "@", "%", "%00", "%ff", "\\", "\xe9", "\xff", "_", "http://",
         "null", "a" * 300, "..", ".", "?", "#", " ", "{", "\t", "try_", "é", "0"]  # fmt: skip
OUTRIGHT = [
    "[",
    "]",
    "[::1",
    "http://[",
    "127.0.0.1:x",
    "a b",
    "http://",
    "//",
    "\xff",
    "[v1.x]",
    "127.0.0.1:99999999",
    "%5b",
]


def test_malformed_requests_get_400_and_no_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Session(checkpoint=str(tmp_path / "state")) as session:
        session.execute(
            "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY q AS SELECT k FROM a"
        )
        client = Client(session.dashboard())
        session.start()
        session.push("a", [(1, 1)])
        wait_until(lambda: answers(client))
        for text in OUTRIGHT:
            assert raw(client, "GET", "/api/about", {"Host": text}) == 400, text
            assert raw(client, "GET", "/api/about", {"Origin": text}) == 400, text
        draw = random.Random(first_seed())
        host = f"127.0.0.1:{client.port}"
        for _ in range(300):
            text = "".join(draw.choices(PARTS, k=draw.randrange(1, 4)))
            path = draw.choice(["/page/{}", "/api/query?name={}", "/api/history?query={}", "/api/history?seconds={}",
                                "/api/record?number={}",
                                "/{}", "/metrics?{}", "/api/history?points={}", "/?token={}"]).format(quoted(text))  # fmt: skip
            header = draw.choice(["Host", "Origin", "Cookie", "Authorization", "Sec-Fetch-Site", "Content-Type", "X"])
            status = raw(client, draw.choice(["GET", "POST", "PUT", "HEAD"]), path, {"Host": host, header: text})
            assert status < 500, (path, header, text, status)
        bodies = [
            '"\\ud800"',
            f'"try_{"a" * 3000}"',
            f'"{"x" * 200_000}"',
            "null",
            "7",
            "[[]]",
            '""',
            '"\\u0000"',
            '"("',
            f'"{"(" * 50_000}"',
        ]
        for name, key in (
            ("try", "sql"),
            ("add", "sql"),
            ("renew", "query"),
            ("set", "query"),
            ("request", "text"),
            ("drop", "queries"),
        ):
            for body in bodies:
                for given in (body, f"[{body}]"):
                    status = client.send(
                        "POST", f"/api/{name}", f'{{"{key}": {given}}}'.encode(), {"Content-Type": "application/json"}
                    )[0]
                    assert status == 400, (name, given[:80], status)
        assert answers(client)
    assert capfd.readouterr().err == ""


def quoted(text: str) -> str:
    """A part of an address without escapes; only characters that would end the line are left out."""
    return "".join(c if "!" <= c <= "~" else f"%{ord(c) % 256:02x}" for c in text)


def raw(client: Client, method: str, path: str, headers: dict[str, str]) -> int:
    """The status of the response to a request whose headers no client library has checked."""
    given = {
        "Host": f"127.0.0.1:{client.port}",
        "Authorization": f"Bearer {client.token}",
        "Connection": "close",
        "Content-Length": "0",
    } | headers
    text = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in given.items()) + "\r\n"
    with opened(client, text.encode("latin-1", "replace")) as connection, connection.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def test_a_page_asks_for_a_bounded_amount_of_work(tmp_path: Path) -> None:
    with Session(checkpoint=str(tmp_path / "state")) as session:
        session.execute(
            "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY q AS SELECT k FROM a"
        )
        client = Client(session.dashboard())
        session.start()
        session.push("a", [(1, 1)])
        wait_until(lambda: answers(client))
        for name, key in (("try", "sql"), ("add", "sql"), ("request", "text")):
            status, found = client.post(f"/api/{name}", {key: "SELECT k FROM a WHERE k = 1" + " OR k = 1" * 20_000})
            assert status == 400 and "too long" in found["error"]["message"], name
        status, found = client.post("/api/request", {"text": ";".join(["REQUEST k FROM t"] * 101)})
        assert status == 400 and "too many" in found["error"]["message"]
        tried = [client.post("/api/try", {"sql": "SELECT k FROM a"})[0] for _ in range(22)]
        assert tried == [200] * 20 + [400] * 2
        assert client.post("/api/renew", {"query": "try_00000000"})[0] == 400


def test_work_beside_the_event_loop_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eddyline.dashboard import app

    monkeypatch.setattr(app, "_WORK_SECONDS", 0.2)
    monkeypatch.setattr(app, "_AT_ONCE", 2)
    monkeypatch.setattr(app, "_BODY_SECONDS", 0.5)
    over = threading.Event()
    monkeypatch.setattr(app, "read_lines", lambda _: over.wait(240) and [])
    server = serve(str(tmp_path / "state"))
    server.start()
    try:
        client = Client(server.address)
        said = [client.send("GET", "/api/decisions") for _ in range(3)]
        assert [status for status, _, _ in said] == [503, 503, 503]
        assert [b"takes too long" in body for _, _, body in said] == [True, True, False] and b"busy" in said[2][2]
        over.set()
        head = f"POST /api/add HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {client.token}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        with opened(client, head.encode()) as slow, slow.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"408"
        wait_until(lambda: not server.dashboard._working)
    finally:
        server.stop()
