"""Derived streams in running jobs: they come and go like queries, live through restarts, and are not written to
`--out`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.errors import BindingProblem, UserError
from eddyline.runtime.sharded.job.ledger import same_text

START = datetime(2024, 1, 1)
BIDS = "CREATE STREAM bids (item INT, price INT, ts TIMESTAMP) WITH (time = 'ts'{});"


def bids(*rows: tuple[int, int, int]) -> pa.Table:
    items, prices, seconds = zip(*rows, strict=True)
    times = [START + timedelta(seconds=s) for s in seconds]
    return pa.table(
        {
            "item": pa.array(items, pa.int32()),
            "price": pa.array(prices, pa.int32()),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def taken(session: Session, query: str) -> list[tuple]:
    return [tuple(row.values())[:-1] for row in session.queries[query].take().to_pylist()]


def test_queries_over_one_derived_stream_compute_it_once() -> None:
    with Session() as session:
        session.execute(BIDS.format(""))
        session.execute("CREATE STREAM dear AS SELECT item, price FROM bids WHERE price > 10")
        session.execute("CREATE QUERY one AS SELECT item FROM dear")
        session.execute("CREATE QUERY two AS SELECT price FROM dear WHERE item = 1 AND _ts >= TIMESTAMP '2024-01-01'")
        assert "dear._ts >=" in str(session.queries["two"].plan)
        session.push("bids", bids((1, 20, 0), (2, 5, 1), (2, 30, 2)))
        session.run()
        assert taken(session, "one") == [(1,), (2,)] and taken(session, "two") == [(20,)]
        assert set(session.pipeline.queries) == {"_dear", "one", "two"}


def test_a_union_of_many_parts_has_the_rows_of_all() -> None:
    """Many queries over one stream are handed their results together; those that make a stream give them to its
    readers."""
    with Session() as session:
        session.execute(BIDS.format(""))
        parts = " UNION ALL ".join(
            f"SELECT item, price + {at} AS price FROM bids WHERE price >= {at}" for at in range(9)
        )
        session.execute(f"CREATE QUERY q AS {parts}")
        session.execute(f"CREATE QUERY same AS {' UNION ALL '.join(['SELECT item FROM bids'] * 70)}")
        session.push("bids", bids((1, 3, 0), (2, 8, 1)))
        session.run()
        assert sorted(taken(session, "q")) == sorted(
            [(1, 3 + at) for at in range(4)] + [(2, 8 + at) for at in range(9)]
        )
        assert sorted(taken(session, "same")) == [(1,)] * 70 + [(2,)] * 70


def test_streams_that_read_each_other_in_many_ways_are_put_in_order_at_once() -> None:
    """Forty streams, each over the two before it: the ways from the last to the first are millions."""
    with Session() as session:
        session.execute(
            BIDS.format("")
            + "CREATE STREAM d0 AS SELECT item, price FROM bids; CREATE STREAM d1 AS SELECT item, price FROM d0;"
        )
        for at in range(2, 40):
            session.execute(
                f"CREATE STREAM d{at} AS SELECT item, price FROM d{at - 1} UNION ALL SELECT item, price FROM d{at - 2} WHERE price < 0"
            )
        session.execute("CREATE QUERY q AS SELECT item FROM d39")
        session.push("bids", bids((1, 3, 0), (2, 8, 1)))
        session.run()
        assert taken(session, "q") == [(1,), (2,)]
        assert [stream for level in session.pipeline.derived.levels() for stream in level.made][:40] == [
            f"d{at}" for at in range(40)
        ]


def test_a_query_takes_its_subqueries_along() -> None:
    with Session() as session:
        session.execute(BIDS.format(""))
        session.execute("CREATE QUERY q AS SELECT x.item FROM (SELECT item FROM bids WHERE price > 1) x")
        session.push("bids", bids((1, 2, 0), (1, 2, 1)))
        session.step()
        assert set(session.pipeline.queries) == {"_q-1", "q"}
        session.execute("DROP QUERY q")
        session.push("bids", bids((1, 2, 5)))
        session.step()
        assert not session.pipeline.queries and set(session.pipeline.intakes) == {"bids"}
        # A query that comes later sees what comes after it.
        session.execute("CREATE QUERY q AS SELECT x.item FROM (SELECT item FROM bids WHERE price > 1) x")
        session.push("bids", bids((7, 2, 6), (8, 2, 7)))
        session.run()
        assert taken(session, "q") == [(7,), (8,)]


def test_a_derived_stream_is_dropped_after_its_readers() -> None:
    with Session() as session:
        session.execute(BIDS.format(""))
        session.execute("CREATE STREAM dear AS SELECT item FROM bids WHERE price > 10")
        session.execute("CREATE QUERY q AS SELECT item FROM dear")
        session.push("bids", bids((1, 20, 0)))
        with pytest.raises(BindingProblem, match="read by query q"):
            session.execute("DROP STREAM dear")
        with pytest.raises(BindingProblem, match="read by stream dear"):
            session.execute("DROP QUERY q; DROP STREAM bids")
        session.execute("DROP STREAM dear")
        session.push("bids", bids((1, 20, 5), (1, 20, 6)))
        session.step()
        assert not session.pipeline.queries and set(session.pipeline.intakes) == {"bids"}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM x AS SELECT item, count(*) AS n FROM bids GROUP BY item", "changelog"),
        ("CREATE QUERY x AS SELECT * FROM (SELECT DISTINCT item FROM bids) y", "changelog"),
        ("CREATE QUERY x AS SELECT item FROM bids UNION ALL SELECT ts FROM bids", "different columns"),
        (
            "CREATE QUERY x AS SELECT a.item FROM (SELECT a.item FROM bids a [ROWS 1], bids b [ROWS 1]) a [ROWS 2]",
            "no order to count in",
        ),
        ("CREATE STREAM x AS SELECT item FROM x", "x is read before it is there"),
        ("CREATE QUERY x AS SELECT item FROM bids UNION SELECT item FROM bids", "UNION is not supported"),
        ("CREATE QUERY x AS SELECT * FROM (SELECT item FROM bids)", "needs an alias"),
    ],
)
def test_what_cannot_be_composed_is_refused(statement: str, message: str) -> None:
    with Session() as session:
        session.execute(BIDS.format(""))
        with pytest.raises(UserError, match=message):
            session.execute(statement)
        session.execute("CREATE QUERY x AS SELECT item FROM bids")


def test_rows_cannot_be_pushed_to_a_derived_stream() -> None:
    with Session() as session:
        session.execute(BIDS.format(""))
        session.execute("CREATE STREAM dear AS SELECT item FROM bids")
        with pytest.raises(UserError, match="cannot be pushed"):
            session.push("dear", pa.table({"item": [1]}))


def test_a_job_of_composed_queries_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--once` twice over growing input gives what one run gives; nothing of a derived stream is written."""
    job = tmp_path / "job.sql"
    job.write_text(
        BIDS.format(f", path = '{tmp_path}/in', format = 'parquet'")
        + "CREATE STREAM tens AS SELECT item, window_end, sum(price) AS total FROM bids GROUP BY TUMBLE(ts, '10 seconds'), item;"
        + "CREATE QUERY top AS SELECT t.item, t.total FROM tens t WHERE t.total > 3;"
        + "CREATE QUERY pairs AS WITH d AS (SELECT item, price FROM bids WHERE price > 1) "
        + "SELECT d.item, t.total FROM d [RANGE 20 SECONDS], tens t [RANGE 20 SECONDS] WHERE d.item = t.item;"
    )
    (tmp_path / "in").mkdir()
    first, second = bids((1, 2, 0), (2, 3, 4), (1, 4, 12)), bids((2, 5, 13), (1, 2, 25), (2, 2, 40))
    parquet.write_table(first, tmp_path / "in/1.parquet")
    run = ["run", str(job), "--once", "--quiet"]
    assert main([*run, "--out", f"{tmp_path}/a", "--checkpoint", f"{tmp_path}/state"]) == 0
    parquet.write_table(second, tmp_path / "in/2.parquet")
    assert main([*run, "--out", f"{tmp_path}/a", "--checkpoint", f"{tmp_path}/state"]) == 0
    assert main([*run, "--no-final", "--out", f"{tmp_path}/b"]) == 0
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["pairs", "top"]
    for query in ("top", "pairs"):
        a, b = (parquet.read_table(tmp_path / side / query) for side in "ab")
        assert sorted(map(str, a.to_pylist())) == sorted(map(str, b.to_pylist())) and len(a)
    assert main(["check", str(job)]) == 0
    capsys.readouterr()
    assert main(["explain", str(job)]) == 0
    assert "tens" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changed",
    ["AS SELECT item, price FROM bids WHERE price > 3", "WITH (sequence = 'price') AS SELECT item, price FROM bids"],
)
def test_a_derived_stream_does_not_change_under_a_checkpoint(tmp_path: Path, changed: str) -> None:
    query = "CREATE QUERY q AS SELECT item FROM dear [RANGE 5 SECONDS] GROUP BY item;"
    for declared in ("AS SELECT item, price FROM bids", changed):
        with Session(checkpoint=f"{tmp_path}/state", out=f"{tmp_path}/out") as session:
            session.execute(BIDS.format("") + f"CREATE STREAM dear {declared};" + query)
            session.push("bids", bids((1, 2, 0), (2, 3, 4)))
            if declared != changed:
                session.run(once=True)
            else:
                with pytest.raises(UserError, match="stream dear is not the one in the checkpoint"):
                    session.run(once=True)


@pytest.mark.parametrize("changed", ["'a b'", "'a  b '"])
def test_blanks_within_a_literal_are_part_of_a_query_under_a_checkpoint(tmp_path: Path, changed: str) -> None:
    for literal in ("'a  b'", changed):
        with Session(checkpoint=f"{tmp_path}/state", out=f"{tmp_path}/out") as session:
            blank = "\n  " if literal == changed else " "
            session.execute(BIDS.format("") + f"CREATE QUERY q AS SELECT item,{blank}{literal} AS said FROM bids;")
            session.push("bids", bids((1, 2, 0)))
            if literal != changed:
                session.run(once=True)
            else:
                with pytest.raises(UserError, match="query q is not the one in the checkpoint"):
                    session.run(once=True)
    assert same_text("SELECT\n 'a  b'", "SELECT 'a  b'") and not same_text("SELECT 'a  b'", "SELECT 'a b'")
