"""A signal in functions that a job's main thread calls, any of them: the process ends, and the same command then completes the
results."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eddyline
from tests.fault import signalled
from tests.fault.signalled import Struck
from tests.seeds import cases, first_seed, is_soak

pytestmark = pytest.mark.fault

#: Seconds from the start of a process to its end. An epoch of the job takes some hundredths of a second.
PATIENCE = 240.0
COMMAND = ("run", "job.sql", "--out", "out", "--checkpoint", "state", "--quiet")
#: One function of each state that a driver is in.
STATES = [
    "opening.opened",
    "runner.EmbeddedRunner._built",
    "reader.StreamReader.fill",
    "pipeline.Pipeline.step",
    "planner.Planner.after_epoch",
    "delivery.Delivery.write",
    "checkpoint.Checkpoint.save",
    "refreshing.EmbeddedRefreshing.refresh",
    "spilling.Spilling.after_epoch",
    "reporter.Reporter.beat",
    "driver.EmbeddedDriver._rest",
]
JOB = """
SET epoch_rows = 40; SET checkpoint_seconds = 0;
CREATE STREAM a (k BIGINT, s STRING, ts TIMESTAMP) WITH (format = 'parquet', path = 'a', time = 'ts', lateness = '2 seconds');
CREATE STREAM b (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'jsonl', path = 'b', time = 'ts', lateness = '2 seconds',
  idle = '1 second');
CREATE TABLE names (k BIGINT, name STRING) WITH (format = 'parquet', path = 'names.parquet', refresh = '1 millisecond');
CREATE TEMPLATE counts AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;
CREATE QUERY pairs WITH (memory_budget = '4 MB', over_budget = 'spill') AS
  SELECT a.k, a.s, b.v FROM a [RANGE 20 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k;
CREATE QUERY three AS SELECT x.k FROM a [RANGE 3 SECONDS] x, a [RANGE 3 SECONDS] y, b [RANGE 3 SECONDS] z WHERE x.k = y.k AND y.k = z.k;
CREATE QUERY named AS SELECT a.k, n.name FROM a, names n WHERE a.k = n.k;
CREATE QUERY sums AS SELECT k, SUM(v) AS v FROM b [RANGE 30 SECONDS] GROUP BY k EMIT EVERY 10 SECONDS;
CREATE QUERY steps AS EVENT SEQ('t1' x, 't2' y) FROM a TYPE s PARTITION BY k WITHIN 5 SECONDS RETURN k;
"""


def write(folder: Path) -> None:
    draw = Random(3)
    for name in "ab":
        (folder / name).mkdir(parents=True)
    for number in range(2):
        stamps = sorted(draw.randrange(40_000_000 * number, 40_000_000 * (number + 1)) for _ in range(120))
        rows = {
            "k": [draw.randrange(9) for _ in stamps],
            "s": [f"t{n % 5}" for n in stamps],
            "ts": pa.array(stamps, pa.timestamp("us")),
        }
        parquet.write_table(pa.table(rows), folder / "a" / f"{number}.parquet")
        lines = [
            {"k": draw.randrange(9), "v": n % 50, "ts": f"1970-01-01 00:{n // 60_000_000:02d}:{n / 1e6 % 60:09.6f}"}
            for n in stamps
        ]
        (folder / "b" / f"{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    parquet.write_table(pa.table({"k": [1, 2, 3], "name": ["one", "two", "three"]}), folder / "names.parquet")
    (folder / "job.sql").write_text(JOB)


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    folder = tmp_path_factory.mktemp("warm")
    write(folder)
    found = Struck(folder)
    yield found
    found.close()


def results(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(map(str, parquet.read_table(path).to_pylist())) for path in sorted((folder / "out").iterdir())
    }


def life(struck: Struck, folder: Path, at: str, number: signal.Signals, *more: str) -> tuple[int | None, str]:
    """One run that is struck, and one that ends what it began."""
    write(folder)
    code, said = struck.run(folder, *COMMAND, *more, at=at, number=number, seconds=PATIENCE)
    assert code is not None, f"{at}: the signal is not obeyed\n{said}"
    assert code in (0, -number) and "Traceback" not in said, (at, code, said)
    assert "struck" in said, f"{at} is not called"
    again, words = struck.run(folder, *COMMAND, "--once", at="nothing", number=0, seconds=PATIENCE)
    assert again == 0, (at, words)
    return code, said


@pytest.fixture(scope="module")
def right(struck: Struck, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("right") / "job"
    write(folder)
    assert struck.run(folder, *COMMAND, "--once", at="nothing", number=0, seconds=PATIENCE)[0] == 0
    return results(folder)


def test_functions_are_those_of_the_package_wherever_the_checkout_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A checkout called src/eddyline has every file, also of its environment, below a folder of that name."""
    top = tmp_path / "src" / "eddyline"
    monkeypatch.setattr(eddyline, "__file__", str(top / "src" / "eddyline" / "__init__.py"))
    called = signalled._profiled("", 0)
    try:
        for place in ("src/eddyline/ours.py", ".venv/lib/theirs.py", "tests/fault/tests.py"):
            names: dict[str, Callable[[], None]] = {}
            exec(compile("def work(): pass", str(top / place), "exec"), names)
            names["work"]()
    finally:
        sys.setprofile(None)
    assert called is not None and capfd.readouterr().err.split() == ["called", "ours.<module>", "called", "ours.work"]


@pytest.mark.parametrize("at", STATES)
def test_a_signal_in_each_state(struck: Struck, right: dict[str, list[str]], tmp_path: Path, at: str) -> None:
    number = (signal.SIGTERM, signal.SIGINT)[STATES.index(at) % 2]
    life(struck, tmp_path / "job", at, number, "--dashboard", "0")
    assert results(tmp_path / "job") == right


@pytest.mark.long
@pytest.mark.timeout(8 * 3600)
def test_a_signal_in_functions_drawn_at_random(struck: Struck, right: dict[str, list[str]], tmp_path: Path) -> None:
    write(tmp_path / "calls")
    names = struck.functions(tmp_path / "calls", *COMMAND, "--once")
    draw = Random(first_seed())
    # Before the run takes signals over they end the process.
    began = next(place for place, name in enumerate(names) if name.startswith("progress."))
    # All of them take more than an hour of CPU time: a soak strikes each, other runs those that their seed draws.
    drawn = names[began:] if is_soak() else draw.sample(names[began:], cases(800))
    print(f"{len(drawn)} of {len(names) - began} functions")
    wrong = []
    for place, at in enumerate(drawn):
        folder = tmp_path / str(place)
        write(folder)
        number = draw.choice([signal.SIGTERM, signal.SIGINT])
        code, said = struck.run(folder, *COMMAND, "--once", at=at, number=number, seconds=PATIENCE)
        again, words = struck.run(folder, *COMMAND, "--once", at="nothing", number=0, seconds=PATIENCE)
        if code not in (0, -number) or again != 0 or "Traceback" in said or results(folder) != right:
            wrong.append((at, code, said[-2000:], again, words[-500:]))
    assert not wrong, wrong
