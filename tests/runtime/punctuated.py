"""Small sessions with punctuations: streams of two numbers and a time."""

from __future__ import annotations

from typing import Any

from eddyline import Session
from eddyline.settings import Settings

SECOND = 1_000_000
EAGER = Settings(purge="eager")


def made(text: str, settings: Settings = EAGER, **more: Any) -> Session:
    session = Session(settings, **more)
    session.execute(text)
    return session


def streams(*names: str, options: str = "") -> str:
    return "; ".join(
        f"CREATE STREAM {n} (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day'{options})"
        for n in names
    )


def row(x: int | None, at: float, y: int = 0) -> dict[str, object]:
    return {"x": x, "y": y, "ts": int(at * SECOND)}


def stored(session: Session) -> dict[str, int]:
    return {stream.name: stream.store.live for stream in session.pipeline.stores()}


def beat(session: Session, at: float, *names: str) -> None:
    """Move time on with rows that join nothing."""
    for name in names:
        session.push(name, [row(-1 - ord(name), at)])
    session.step()
