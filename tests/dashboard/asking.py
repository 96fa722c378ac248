"""Requests to a dashboard as programs send them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Client:
    """A program that knows the address; `token` goes as a header."""

    def __init__(self, address: str) -> None:
        found = urlsplit(address)
        assert found.hostname is not None and found.port is not None
        self.host, self.port = found.hostname, found.port
        self.token = parse_qs(found.query)["token"][0]

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        token: bool = True,
    ) -> Any:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=240)
        known = {"Authorization": f"Bearer {self.token}"} if token else {}
        try:
            connection.request(method, path, body, {**known, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, body = self.send("GET", path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def post(self, path: str, content: Any) -> tuple[int, Any]:
        status, _, body = self.send("POST", path, json.dumps(content).encode(), {"Content-Type": "application/json"})
        return status, json.loads(body)

    @contextmanager
    def events(self, path: str = "/events") -> Iterator[Iterator[tuple[str, Any]]]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=240)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.getheader("content-type", "").startswith("text/event-stream")
        try:
            yield _read(answer)
        finally:
            answer.close()
            connection.close()


def _read(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            kind = text[7:]
        elif text.startswith("data: "):
            yield kind, json.loads(text[6:])


def wait_until(found: Callable[[], Any], seconds: float = 240.0) -> Any:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come about")
