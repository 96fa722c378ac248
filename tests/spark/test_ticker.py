"""The one thread of a Spark job that does what is due while no batch comes."""

import threading

import pytest

from eddyline.runtime.sharded.job import ticker as module
from eddyline.runtime.sharded.job.ticker import Ticker


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.001)


def test_duties_are_called_in_one_thread_until_it_stops() -> None:
    seen: dict[str, set[int]] = {"a": set(), "b": set()}
    twice = threading.Event()
    calls = []

    def duty(name: str) -> None:
        seen[name].add(threading.get_ident())
        calls.append(name)
        if len(calls) >= 4:
            twice.set()

    ticker = Ticker()
    ticker.start({"a": lambda: duty("a"), "b": lambda: duty("b")})
    assert twice.wait(20)
    ticker.stop()
    number = len(calls)
    assert calls[:4] == ["a", "b", "a", "b"] and seen["a"] == seen["b"] and len(seen["a"]) == 1
    assert threading.get_ident() not in seen["a"]
    assert not [thread for thread in threading.enumerate() if thread.name == "eddyline-ticker"]
    # A stopped ticker starts again, and one that does not run may be stopped.
    ticker.stop()
    twice.clear()
    ticker.start({"a": lambda: duty("a")})
    assert twice.wait(20)
    ticker.stop()
    assert len(calls) > number


def test_a_full_disk_is_tried_again_and_any_other_error_ends_its_duty_only(caplog: pytest.LogCaptureFixture) -> None:
    calls = {"full": 0, "wrong": 0, "good": 0}
    enough = threading.Event()

    def full() -> None:
        calls["full"] += 1
        raise OSError(28, "No space left on device")

    def wrong() -> None:
        calls["wrong"] += 1
        raise ValueError("no such thing")

    def good() -> None:
        calls["good"] += 1
        if calls["good"] == 3:
            enough.set()

    ticker = Ticker()
    ticker.start({"records are not read": full, "nothing is written": wrong, "files stay open": good})
    assert enough.wait(20)
    ticker.stop()
    assert calls["full"] >= 3 and calls["wrong"] == 1
    assert "records are not read: [Errno 28]" in caplog.text and "nothing is written" in caplog.text
    assert "files stay open" not in caplog.text
