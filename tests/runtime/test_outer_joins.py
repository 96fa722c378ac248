"""Outer joins and EXISTS in running jobs: static tables, chains of joins, queries that come and go, what a bounded end
leaves."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from eddyline import Session
from eddyline.errors import UserError

SECOND = 1_000_000
STREAMS = (
    "CREATE STREAM a (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts');"
    " CREATE STREAM b (k INT, w INT, ts TIMESTAMP) WITH (time = 'ts');"
)


def rows(*of: tuple[int | None, int, float]) -> list[tuple[int | None, int, int]]:
    return [(k, v, int(seconds * SECOND)) for k, v, seconds in of]


def taken(session: Session, name: str = "q") -> list[tuple]:
    found = [row.values() for table in session.queries[name].results() for row in table.to_pylist()]
    return [(*values[:-1], values[-1].second) for values in map(list, found)]


def test_tables_answer_at_once_and_after_other_joins(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"k": pa.array([1, 3], pa.int32()), "name": ["one", "three"]}), tmp_path / "t.parquet")
    with Session() as session:
        session.execute(
            STREAMS + f"CREATE TABLE t (k INT, name STRING) WITH (format = 'parquet', path = '{tmp_path}/t.parquet')"
        )
        session.query("q", "SELECT a.k, t.name FROM a LEFT JOIN t ON a.k = t.k WHERE a.v > 0")
        session.query("r", "SELECT a.k, t.name FROM t RIGHT JOIN a ON a.k = t.k")
        chain = "SELECT a.k, b.w, t.name, u.name AS other FROM a [RANGE 2 SECONDS] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k"
        session.query(
            "chain", f"{chain} LEFT JOIN t ON t.k = b.k JOIN t u ON u.k = a.k WHERE t.name IS NULL OR a.v > 1"
        )
        session.query("n", "SELECT a.v FROM a WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = a.k) AND a.v > 0")
        session.push("a", rows((1, 1, 0), (2, 2, 1), (None, 3, 1), (3, 0, 2), (3, 9, 3)))
        session.push("b", rows((3, 7, 3), (1, 8, 9)))
        session.step()
        # The row at 3 is not yet below the frontier of its stream; what is, is answered at once.
        assert taken(session) == [(1, "one", 0), (2, None, 1), (None, None, 1)] and taken(session, "n") == [
            (2, 1),
            (3, 1),
        ]
        session.run()
        assert taken(session)[-1:] == [(3, "three", 3)] and taken(session, "r")[-2:] == [
            (3, "three", 2),
            (3, "three", 3),
        ]
        assert sorted(taken(session, "chain")) == [(1, None, None, "one", 2), (3, 7, "three", "three", 3)]


def test_a_query_that_comes_and_goes_knows_its_own_rows() -> None:
    with Session() as session:
        session.execute(STREAMS)
        session.push("a", rows((1, 1, 0), (2, 2, 1)))
        session.push("b", rows((9, 9, 1)))
        session.query("all", "SELECT a.k, b.w FROM a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 3 SECONDS] ON a.k = b.k")
        session.step()
        session.query("q", "SELECT a.k, b.w FROM a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 3 SECONDS] ON a.k = b.k")
        session.push("a", rows((3, 3, 2), (4, 4, 3), (5, 5, 6)))
        session.push("b", rows((1, 7, 2), (4, 8, 5), (9, 9, 6)))
        session.step()
        # Rows up to 1 do not exist for the query that came at 1.
        assert taken(session) == [(4, 8, 5), (3, None, 5)] or taken(session) == [(3, None, 5), (4, 8, 5)]
        assert taken(session, "all")[:2] == [(1, 7, 2), (2, None, 4)]
        session.execute("DROP QUERY q")
        session.push("a", rows((6, 6, 20)))
        session.push("b", rows((6, 6, 20)))
        session.step()
        assert set(session.pipeline.queries) == {"_all-1", "all"}
        assert taken(session, "all")[-1] == (5, None, 9)


def test_a_bounded_end_leaves_open_what_is_not_certain() -> None:
    with Session() as session:
        session.execute(STREAMS)
        session.query(
            "q", "SELECT a.k, a.v FROM a [ROWS 2] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5 SECONDS] WHERE b.k = a.k)"
        )
        session.push("a", rows((1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 4, 2.5)))
        session.push("b", rows((2, 0, 0.5)))
        session.run(final=False)
        # The rows at 2 and 2.5 are still in their window.
        assert taken(session) == [(1, 1, 2)]


def changes(session: Session, name: str = "q") -> list[tuple]:
    """Rows of a changelog: values, sign and second."""
    found = [list(row.values()) for table in session.queries[name].results() for row in table.to_pylist()]
    return [(*values[:-1], values[-1].second) for values in found]


def test_an_aggregate_counts_the_outer_join_of_live_rows() -> None:
    with Session() as session:
        session.execute(STREAMS)
        joined = "FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k"
        session.query("q", f"SELECT count(*) AS n, count(b.w) AS m {joined} EMIT EVERY 1 SECOND")
        session.query(
            "e",
            "SELECT count(*) AS n FROM a [ROWS 1] WHERE EXISTS (SELECT 1 FROM b [RANGE 2 SECONDS] WHERE b.k = a.k) EMIT EVERY 1 SECOND",
        )
        session.query("w", f"SELECT a.k, window_end, count(*) AS n {joined} GROUP BY TUMBLE(a.ts, '2 seconds'), a.k")
        session.push("a", rows((1, 1, 0)))
        session.push("b", rows((1, 1, 1), (9, 9, 8)))
        session.run(once=True)
        assert changes(session) == [(1, 0, "+", 0), (1, 1, "+", 1), (1, 0, "+", 4), (0, 0, "+", 6)]
        assert changes(session, "e") == [(0, "+", 0), (1, "+", 1), (0, "+", 4)]
        assert [(k, n, second) for k, _, n, _, second in changes(session, "w")] == [(1, 1, 6)]


def test_a_live_aggregate_comes_and_goes() -> None:
    text = "SELECT a.k, count(b.w) AS m FROM a [RANGE 9 SECONDS] FULL JOIN b [ROWS 1] ON a.k = b.k GROUP BY a.k"
    with Session() as session:
        session.execute(STREAMS)
        session.query("all", text)
        session.push("a", rows((1, 1, 0), (2, 2, 1)))
        session.push("b", rows((2, 9, 1)))
        session.step()
        session.query("q", text)
        session.push("a", rows((3, 3, 2), (3, 4, 6)))
        session.push("b", rows((3, 7, 3), (9, 9, 6)))
        session.step()
        # Rows up to 1 do not exist for the query that came at 1.
        assert changes(session) == [(3, 1, "+", 5)]
        assert sorted(changes(session, "all")) == [(1, 0, "+", 0), (2, 0, "+", 5), (3, 1, "+", 5)]
        session.execute("DROP QUERY q")
        session.push("a", rows((4, 4, 20)))
        session.push("b", rows((4, 4, 20)))
        session.step()
        assert not any(name.startswith(("q", "_q")) for name in session.pipeline.queries)


PUNCTUATED = (
    "CREATE STREAM a (k INT, v INT, ts TIMESTAMP) WITH (time = 'ts'); "
    "CREATE STREAM b (k INT, done BOOLEAN, ts TIMESTAMP) WITH (time = 'ts', punctuation = 'done');"
)


def test_a_punctuation_closes_the_partners_of_a_row() -> None:
    """Rows are results when a punctuation has closed their partners, or their window ends, in any epochs: by plain
    loops."""
    windows = (("", None), (" [RANGE 4 SECONDS]", 4), (" [PARTITION BY k ROWS 2]", None))
    for seed in range(24):
        rng = Random(seed)
        window, span = windows[seed % 3]
        left, right, now, over = [], [], 0, set()
        for _ in range(rng.randint(5, 30)):
            now += rng.choice((0, 1, 1, 2))
            k = rng.randint(0, 5)
            if rng.random() < 0.5:
                left.append((k, len(left), now))
            elif k not in over:
                done = rng.random() < 0.5
                over |= {k} if done else set()
                right.append((k, done, now))
        # A punctuation is no row: the run ends with the newest row.
        end = max([t for *_, t in left] + [t for _, done, t in right if not done], default=-1)
        expected = []
        for k, v, t in left:
            # A stream that was created earlier wins ties.
            ends = [t + span] if span is not None else []
            pushers = [u for j, w, u in left if j == k and w > v]
            ends += pushers[1:2] if "PARTITION" in window else []
            closed = [max(t, u) for j, done, u in right if j == k and done]
            met = [u for j, done, u in right if j == k and not done and u <= min(ends, default=end)]
            if "PARTITION" in window:
                # Rows of a come before those of b at one instant.
                met = [u for j, done, u in right if j == k and not done and sum(p <= u for p in pushers) < 2]
            certain = min([*ends, *closed], default=None)
            if not met and certain is not None and certain <= end:
                expected.append((v, certain))
        for cuts in (1, rng.randint(2, 6)):
            with Session() as session:
                session.execute(PUNCTUATED)
                session.query("q", f"SELECT a.v FROM a{window} LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL")
                session.query("n", f"SELECT a.v FROM a{window} WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)")
                for cut in range(cuts):
                    low, high = end * cut / cuts, end * (cut + 1) / cuts
                    low = -1 if cut == 0 else low
                    session.push("a", [(k, v, t * SECOND) for k, v, t in left if low < t <= high])
                    session.push("b", [(k, done, t * SECOND) for k, done, t in right if low < t <= high])
                    session.step()
                session.run(final=False)
                for name in "qn":
                    found = [
                        (row["v"], row["_ts"].timestamp())
                        for table in session.queries[name].results()
                        for row in table.to_pylist()
                    ]
                    assert sorted((v, int(t)) for v, t in found) == sorted(expected), (
                        seed,
                        cuts,
                        name,
                        window,
                        left,
                        right,
                    )
                    assert [t for _, t in found] == sorted(t for _, t in found)


def test_the_first_groups_of_live_rows_and_the_first_of_the_last_rows() -> None:
    with Session() as session:
        session.execute(STREAMS)
        joined = "FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k"
        first = "QUALIFY ROW_NUMBER() OVER (ORDER BY m DESC) <= 1 EMIT EVERY 1 SECOND"
        session.query("q", f"SELECT a.k, count(b.w) AS m {joined} GROUP BY a.k {first}")
        largest = "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 1 EMIT EVERY 1 SECOND"
        session.query("p", f"SELECT k, v FROM a [PARTITION BY k ROWS 2] {largest}")
        session.push("a", rows((1, 9, 0), (1, 1, 1), (2, 2, 2), (1, 3, 3)))
        session.push("b", rows((2, 1, 3), (9, 9, 6)))
        session.run(once=True)
        # Rows of group 2 have a partner from 3 to 5; of equal groups the one with the oldest row is first.
        assert changes(session) == [
            (1, 0, "+", 0), (1, 0, "-", 3), (2, 1, "+", 3), (2, 1, "-", 6), (1, 0, "+", 6),
        ]  # fmt: skip
        assert changes(session, "p") == [(1, 9, "+", 0), (2, 2, "+", 2), (1, 9, "-", 3), (1, 3, "+", 3)]


def test_what_waits_for_rows_that_leave_by_number_is_said_to_grow() -> None:
    text = "SELECT a.k, b.w FROM a [ROWS 3] LEFT JOIN b [NOW] ON a.k = b.k LEFT JOIN b [RANGE 1 SECOND] c ON a.k = c.k"
    said = "query q: what an outer join or EXISTS found for rows whose windows do not end by time grows for ever"
    with Session() as session:
        session.execute(STREAMS)
        session.query("q", text)
        session.query("r", text.replace("ROWS 3", "RANGE 3 SECONDS"))
        assert session.warnings == [said]
        session.execute("SET unbounded = 'error'")
        with pytest.raises(UserError, match="found for rows whose windows do not end by time"):
            session.query("s", text)


# -- what punctuations make certain


PROMISED = """
    CREATE STREAM ends (k BIGINT, closes TIMESTAMP, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM l (k BIGINT, j BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM r (k BIGINT, j BIGINT, ts TIMESTAMP) WITH (time = 'ts', remember = '1 day');
    CREATE PUNCTUATION p ON r (k) FROM ends (k) AT closes
"""
MISSING = (
    "SELECT l.k FROM l LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL",
    "SELECT l.k FROM r RIGHT JOIN l ON l.k = r.k WHERE r.k IS NULL",
    "SELECT l.k FROM l FULL JOIN r [NOW] ON l.k = r.k WHERE r.k IS NULL AND l.k IS NOT NULL",
    "SELECT k FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
)


@pytest.mark.parametrize("closes", [0, 3, 5, 6, None])
@pytest.mark.parametrize("text", MISSING)
def test_a_punctuation_stands_at_the_later_of_two_instants(text: str, closes: int | None) -> None:
    for steps in (False, True):
        with Session() as session:
            session.execute(PROMISED)
            query = session.query("q", text)
            group = session.query("g", "SELECT k, count(*) AS n FROM r GROUP BY k EMIT ON CLOSE")
            instant = None if closes is None else closes * SECOND
            for stream, row in [
                ("r", {"k": 2, "ts": 2 * SECOND}),
                ("l", {"k": 1, "ts": 4 * SECOND}),
                ("r", {"k": 9, "ts": 5 * SECOND}),
                ("l", {"k": 8, "ts": 5 * SECOND}),
                ("ends", {"k": 1, "closes": instant, "ts": 5 * SECOND}),
                ("ends", {"k": 2, "closes": instant, "ts": 5 * SECOND}),
                ("l", {"k": 8, "ts": 9 * SECOND}),
                ("ends", {"k": 7, "closes": None, "ts": 9 * SECOND}),
                ("r", {"k": 9, "ts": 9 * SECOND}),
            ]:
                session.push(stream, [row])
                if steps:
                    session.step()
            session.run(final=False)
            wanted = [] if closes is None else [max(closes, 5) * SECOND]
            assert query.table().column("_ts").cast("int64").to_pylist() == wanted
            assert group.table().column("_ts").cast("int64").to_pylist() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT l.j FROM l LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL", [(1, 1), (3, 5)]),
        ("SELECT l.j FROM l LEFT JOIN r ON l.k = r.k AND l.j = r.j", [(1, 1), (None, 2), (3, 5)]),
        ("SELECT l.j FROM l LEFT JOIN r ON l.k = r.k AND l.j IS NOT DISTINCT FROM r.j", [(1, 1), (3, 5)]),
        ("SELECT j FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k + 1)", [(1, 1), (3, 5)]),
        ("SELECT l.j FROM l [RANGE 3 SECONDS] LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL", [(1, 1), (3, 5)]),
        (
            "SELECT l.j FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN ends ON ends.k = l.j WHERE r.k IS NULL",
            [(1, 4), (3, 9)],
        ),
        ("SELECT x.j FROM (SELECT l.j FROM l LEFT JOIN r ON l.k = r.k WHERE r.k IS NULL) x", [(1, 1), (3, 5)]),
    ],
)
def test_nothing_equals_null(text: str, wanted: list[tuple[int | None, int]]) -> None:
    for steps in (False, True):
        with Session() as session:
            session.execute(PROMISED.replace("'ts');", "'ts', remember = '1 day');"))
            query = session.query("q", text)
            for stream, row in [
                ("l", {"k": None, "j": 1, "ts": 1 * SECOND}),
                ("l", {"k": 4, "j": None, "ts": 2 * SECOND}),
                ("r", {"k": 4, "j": 2, "ts": 3 * SECOND}),
                ("ends", {"k": 1, "closes": None, "ts": 4 * SECOND}),
                ("l", {"k": None, "j": 3, "ts": 5 * SECOND}),
                ("l", {"k": 8, "j": 8, "ts": 9 * SECOND}),
                ("ends", {"k": 3, "closes": None, "ts": 9 * SECOND}),
                ("r", {"k": 9, "j": 9, "ts": 9 * SECOND}),
            ]:
                session.push(stream, [row])
                if steps:
                    session.step()
            session.run(final=False)
            found = query.table()
            stamps = [ts // SECOND for ts in found.column("_ts").cast("int64").to_pylist()]
            assert list(zip(found.column("j").to_pylist(), stamps, strict=True)) == wanted
