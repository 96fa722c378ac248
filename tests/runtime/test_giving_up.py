"""An epoch is given up while it computes: it hands nothing over afterwards, and what it has handed over is whole."""

from __future__ import annotations

import threading

from eddyline import Session
from eddyline.runtime.embedded.giving_up import EpochAtHand


def test_only_an_epoch_that_computes_is_given_up() -> None:
    epoch, called = EpochAtHand(), []
    assert not epoch.end(lambda: called.append("before"))
    with epoch.computing(), epoch.handing_over():
        assert not epoch.end(lambda: called.append("handing over"))
    assert not epoch.end(lambda: called.append("afterwards"))
    with epoch.computing():
        assert epoch.end(lambda: called.append("computing"))
        # `handing_over` and the end of `computing` would wait for ever.
        epoch._lock.release()
    assert called == ["computing"]


def test_an_epoch_that_is_given_up_hands_nothing_over() -> None:
    epoch, handed, ready = EpochAtHand(), [], threading.Event()

    def work() -> None:
        with epoch.computing():
            for number in range(2):
                with epoch.handing_over():
                    handed.append(number)
                if not number:
                    ready.set()
                    given_up.wait()

    given_up = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    assert epoch.end(lambda: handed.append("published"))
    given_up.set()
    thread.join(0.2)
    assert thread.is_alive() and handed == [0, "published"]
    epoch._lock.release()
    thread.join()


def test_a_session_gives_up_what_its_checkpoint_repeats(tmp_path) -> None:
    assert Session().give_up() == "no epoch has begun"
    with Session(checkpoint=str(tmp_path / "state")) as session:
        session.execute(
            "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (time = 'ts'); CREATE QUERY q AS SELECT k FROM a;"
        )
        session.step()
        assert session.give_up() is None
        said = session.give_up(anything=True)
        assert said == (
            "what follows the epoch at hand takes too long and is given up: "
            f"the next run on the checkpoint {tmp_path / 'state'} repeats it"
        )
