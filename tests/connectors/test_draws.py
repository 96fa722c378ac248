"""Rates, skews, disorder and bursts are those of the shape."""

import numpy as np
import pytest

from eddyline.connectors.generators.draws import (
    SECOND,
    START,
    GeneratorShape,
    arrival_order,
    event_times,
    keys,
    rng_for,
)
from eddyline.errors import UserError


def test_even_times_have_the_rate():
    times = event_times(rng_for(0, "t"), GeneratorShape(rate=4, seconds=10))
    assert len(times) == 40 and times[0] == START and set(np.diff(times).tolist()) == {SECOND // 4}


def test_bursts_keep_rate_and_length_but_not_the_gaps():
    times = event_times(rng_for(0, "t"), GeneratorShape(rate=1000, seconds=10, burst=1.2))
    gaps = np.diff(times)
    assert len(times) == 10_000 and gaps.min() >= 0 and times[-1] < START + 10 * SECOND
    assert np.median(gaps) < gaps.mean() / 2 and gaps.max() > 20 * gaps.mean()


def test_keys_are_uniform_or_zipf():
    even = np.bincount(keys(rng_for(0, "k"), 100_000, 10), minlength=11)[1:]
    assert even.min() > 9_500 and even.sum() == 100_000
    skewed = np.bincount(keys(rng_for(0, "k"), 100_000, 10, 1.0), minlength=11)[1:]
    assert skewed[0] == pytest.approx(2 * skewed[1], rel=0.1) and skewed[0] == pytest.approx(10 * skewed[9], rel=0.15)


def behind(times, order):
    """How far each arriving row is behind the newest one before it."""
    arrived = times[order]
    return np.maximum.accumulate(arrived) - arrived


def test_disorder_stays_within_its_bound():
    shape = GeneratorShape(rate=100, seconds=60, disorder=2.0)
    times = event_times(rng_for(0, "t"), shape)
    lag = behind(times, arrival_order(rng_for(0, "o"), times, shape))
    assert SECOND < lag.max() <= 2 * SECOND


@pytest.mark.parametrize("burst", [None, 1.5])
def test_the_late_share_is_late_and_the_others_are_not(burst):
    shape = GeneratorShape(rate=100, seconds=600, disorder=1.0, late=0.05, burst=burst)
    times = event_times(rng_for(0, "t"), shape)
    order = arrival_order(rng_for(0, "o"), times, shape)
    assert sorted(order.tolist()) == list(range(len(times)))
    late = behind(times, order) > SECOND
    assert late.mean() == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    "wrong", [{"rate": 0}, {"seconds": -1}, {"late": 1.0}, {"burst": 1.0}, {"files": 0}, {"skew": -1}, {"disorder": -1}]
)
def test_impossible_shapes_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        GeneratorShape(**wrong)
    with pytest.raises(UserError, match="empty"):
        keys(rng_for(0, "k"), 1, 0)
