"""Events that complete very many matches: warned of, refused, and seen before a job runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import DataProblem
from eddyline.settings import Settings
from eddyline.tuning import PatternTuning, Tuning

STREAM = "CREATE STREAM s (k BIGINT, u STRING, type STRING, ts TIMESTAMP) WITH (time = 'ts');"
PAIRS = "EVENT SEQ(A x, B y, C z) FROM s TYPE type{by} {more} RETURN x.ts AS a"


def opened(sql: str, most: int = 1_000_000) -> Session:
    # Buffers of 7 matches: those of one event come in many pieces.
    tuning = Tuning(patterns=PatternTuning(matches_at_once=7, many_matches=most))
    session = Session(Settings(tuning=tuning))
    session.execute(f"{STREAM} {sql}")
    kinds = np.array(["A"] * 12 + ["B"] * 12 + ["C"] * 2)
    for key, count in ((4, 3), (9, len(kinds))):
        rows = {"k": np.full(count, key), "u": ["w"] * count, "type": kinds[-count:]}
        ts = pa.array(np.arange(count) + 1_000 * key, pa.timestamp("us"))
        session.push("s", pa.table(rows | {"ts": ts}))
    # Of no match; the time of the others has passed with it.
    session.push("s", [{"k": 11, "u": "w", "type": "E", "ts": datetime(1970, 1, 1, 1)}])
    return session


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "eddyline.results"]


@pytest.mark.parametrize(
    ("pattern", "whose"),
    [
        (PAIRS.format(by=" PARTITION BY k, u", more=""), "with k = 9 and u = 'w' "),
        (PAIRS.format(by="", more=""), ""),
        (PAIRS.format(by=" PARTITION BY k", more="WITHIN 1 SECOND").replace("C z", "C z, NOT(D n)"), "with k = 9 "),
    ],
)
def test_an_event_with_very_many_matches_is_warned_of_once(
    pattern: str, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(f"CREATE QUERY q AS {pattern};", most=100)
    session.run(once=True)
    said = f"query q: one event of stream s {whose}completes 144 matches; most_matches is 100"
    assert warnings(caplog) == [said]
    assert len(session.queries["q"].table()) == 288


def test_as_many_as_the_setting_says_are_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    session = opened(f"CREATE QUERY q WITH (most_matches = 144) AS {PAIRS.format(by=' PARTITION BY k', more='')};")
    session.run(once=True)
    assert not warnings(caplog) and len(session.queries["q"].table()) == 288


def test_more_than_the_setting_says_stop_the_job(caplog: pytest.LogCaptureFixture) -> None:
    session = opened(f"SET most_matches = 100; CREATE QUERY q AS {PAIRS.format(by=' PARTITION BY k', more='')};")
    with pytest.raises(DataProblem, match="query q: one event of stream s with k = 9 completes more than 100 matches"):
        session.run(once=True)
    assert not warnings(caplog)
    # It ends at once: later pieces of the matches are not made.
    assert session.driver.pipeline.queries["q"].rows_in <= 107


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("SEQ(A x, B y) FROM s TYPE type", "all rows of s make matches of 2 events"),
        ("SEQ(A x, B y) FROM s TYPE type WITHIN 5 SECONDS", "the rows of s within 5 SECONDS make matches of 2 events"),
        ("OR(SEQ(A x, NOT(A n), B y), AND(A x, B y, C z)) FROM s TYPE type", "make matches of 3 events"),
        ("SEQ(A x, NOT(A[k > 3] n), B y) FROM s TYPE type", "make matches of 2 events"),
        ("SEQ(A x, NOT(A n), B y) FROM s TYPE type WHERE n.k > 3", "make matches of 2 events"),
        ("SEQ(A x, NOT(B n), B y, C z) FROM s TYPE type", "make matches of 3 events"),
        ("SEQ(A x, B y) FROM s TYPE type PARTITION BY k", ""),
        ("SEQ(A x, B y) FROM s TYPE type FIRST MATCH", ""),
        ("OR(A x, B y) FROM s TYPE type", ""),
        # Each event follows one event at most.
        ("SEQ(A x, NOT(A n), B y, NOT(B m), A z) FROM s TYPE type", ""),
    ],
)
def test_check_warns_of_patterns_that_may_be_quadratic(
    pattern: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.sql"
    head = STREAM.replace("time = 'ts'", "time = 'ts', format = 'csv', path = 'rows'")
    # Of OR a match binds one of the names.
    result = "1 AS one"
    job.write_text(f"{head} CREATE QUERY q AS EVENT {pattern} RETURN {result};")
    assert main(["check", str(job)]) == 0
    said = "".join(capsys.readouterr())
    if words:
        assert "query q: the pattern may be quadratic or worse, it has neither FIRST MATCH nor PARTITION BY" in said
        assert words in " ".join(said.split())
    else:
        assert "quadratic" not in said
