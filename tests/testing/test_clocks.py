from __future__ import annotations

import pytest

from eddyline.testing.clocks import MovedClock


def test_only_the_test_moves_the_clock():
    clock = MovedClock()
    before = clock.now()
    assert clock.now() == before
    clock.advance(1.5)
    clock.sleep(0.5)
    assert clock.now() == before + 2


def test_time_does_not_go_back():
    with pytest.raises(ValueError, match="go back"):
        MovedClock().advance(-1)
