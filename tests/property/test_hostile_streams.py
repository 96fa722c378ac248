"""Random files of null lines, lines that are no UTF-8, wrong numbers of values and instants in the year 9999, over
several lives.

Every line is a result or a dead letter, once: `bad` where it cannot be read, `ahead` where the stream says
`most_ahead`. Without that option the row of the year 9999 is a result too, and so are all others, since nothing is late
within the declared lateness.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.settings import Settings
from eddyline.testing.clocks import MovedClock
from eddyline.tuning import InputTuning, Tuning
from tests.connectors.test_hostile_files import CSV_BAD, CSV_ROWS, JSON_BAD, JSON_ROWS, random_file
from tests.seeds import cases, first_seed

FIRST = first_seed(880_000)
KINDS = {"csv": (CSV_ROWS, CSV_BAD), "jsonl": (JSON_ROWS, JSON_BAD)}
HEAD = b"note,k,x,price,ts\n"


def write(folder: Path, rng: Random, kind: str, number: int) -> tuple[list[int], list[int], int]:
    """A file; the lines of it that are rows, those far ahead among them, and how many are none."""
    text, good, bad = random_file(rng, *KINDS[kind], rng.choice([1, 5, 60]))
    lines = (HEAD if kind == "csv" else b"\n") + text
    (folder / f"{number:02}.{kind}").write_bytes(lines)
    far = [place for place in good if b"9999" in lines.split(b"\n")[place - 1]]
    return good, far, len(bad)


@pytest.mark.property
@pytest.mark.parametrize("seed", range(FIRST, FIRST + cases(8)))
def test_every_line_is_a_result_or_a_dead_letter_once(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    kinds = rng.sample(sorted(KINDS), rng.choice([1, 2]))
    option = rng.choice(["", ", most_ahead = '1 hour'"])
    wanted: dict[str, list[int]] = {kind: [] for kind in kinds}
    bad, ahead = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    lives = rng.choice([1, 3])
    for life in range(lives):
        for kind in kinds:
            (tmp_path / kind).mkdir(exist_ok=True)
            good, far, others = write(tmp_path / kind, rng, kind, life)
            wanted[kind] += [place for place in good if not (option and place in far)]
            ahead[kind] += len(far) if option else 0
            bad[kind] += others
        reading = InputTuning(text_bytes=rng.choice([64, 1000, 4 << 20]), threaded_bytes=rng.choice([1, 1 << 20]))
        settings = Settings(epoch_rows=rng.choice([1, 7, 1000]), tuning=Tuning(input=reading))
        session = Session(settings, checkpoint=str(tmp_path / "state"), out=str(tmp_path / "out"), clock=MovedClock())
        for kind in kinds:
            session.execute(
                f"CREATE STREAM {kind} (note STRING, k BIGINT, x DOUBLE, price DECIMAL(8, 2), ts TIMESTAMP) WITH (format = '{kind}',"
                f" path = '{tmp_path / kind}', time = 'ts', lateness = '3600000 days'{option});"
                f"CREATE QUERY q{kind} AS SELECT k FROM {kind}"
            )
        if life == lives - 1:
            session.run(once=True, final=False)
            continue
        for _ in range(rng.randrange(1, 12)):
            session.step()
        session.driver.save()
        if rng.random() < 0.5:
            # Given up: what comes after the checkpoint is undone.
            session.step()
        session.driver.let_go()
    for kind in kinds:
        results = tmp_path / "out" / f"q{kind}"
        assert sorted(parquet.read_table(results).column("k").to_pylist() if results.exists() else []) == sorted(
            wanted[kind]
        )
        letters = tmp_path / "out" / "_dead_letter" / kind
        reasons = parquet.read_table(letters).column("_reason").to_pylist() if letters.exists() else []
        firsts = [reason.split(":")[0] for reason in reasons]
        assert (firsts.count("bad"), firsts.count("ahead"), len(firsts)) == (
            bad[kind],
            ahead[kind],
            bad[kind] + ahead[kind],
        )
