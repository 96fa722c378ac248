"""Names that were taken, as ranges and as they are, against a plain set."""

import random

import pytest

from eddyline.connectors.files.taken import TakenNames
from tests.seeds import cases, first_seed

POOL = [
    f"{before}{n:0{digits}d}{after}"
    for before in ("", "a/", "x9-")
    for n in range(120)
    for digits in (1, 3)
    for after in ("", ".csv", ".c0.gz")
]
POOL += ["q", "z.gz", "x.7z", "٣.csv", "a\n1", "99999999999999999999999999.csv", "\udcff1.csv", "-1", "a/-1"]


@pytest.mark.parametrize("seed", range(cases(60)))
def test_holds_what_was_added_and_nothing_else(seed: int) -> None:
    draw = random.Random(first_seed(seed))
    names, plain = TakenNames(), set()
    for _ in range(draw.randint(1, 1500)):
        name = draw.choice(POOL)
        names.add(name)
        plain.add(name)
    assert [name for name in POOL if name in names] == [name for name in POOL if name in plain]
    again = TakenNames.from_json(names.to_json())
    assert [name for name in POOL if name in again] == [name for name in POOL if name in plain]
    assert names.pieces <= len(plain)


def test_consecutive_numbers_are_one_range_in_any_order() -> None:
    numbers = list(range(1000))
    random.Random(1).shuffle(numbers)
    names = TakenNames(f"part-{n:05d}.parquet" for n in numbers)
    assert names.pieces == 1
    assert "part-01000.parquet" not in names and "part-00999.parquet" in names


def test_a_gap_in_a_range_is_not_taken() -> None:
    names = TakenNames(f"{n}.csv" for n in range(10, 90) if n != 50)
    assert "50.csv" not in names and "050.csv" not in names and names.pieces == 2
    names.add("50.csv")
    assert "50.csv" in names and names.pieces == 1
