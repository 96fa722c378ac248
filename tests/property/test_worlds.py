"""All features at once: the answers of a random world depend neither on epochs nor on settings, restarts, kills and
shards."""

from __future__ import annotations

import pytest

from tests.property.world_flow import random_world
from tests.property.worlds import failing, report
from tests.seeds import cases, first_seed

FIRST = first_seed(3_000_000)
#: `python -m tests.property.worlds --minutes 60 --seed 1` goes on for as long as it is told to.
WORLDS = cases(4, soak=200)


@pytest.mark.property
@pytest.mark.parametrize("number", range(WORLDS))
def test_a_world_has_one_answer(number: int) -> None:
    assert not failing(random_world(FIRST + number)), report(FIRST + number)
