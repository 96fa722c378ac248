"""Queries over queries on shards: which keys go through all of them, and why others are in one shard."""

from __future__ import annotations

import pytest

from eddyline.errors import PlanProblem
from eddyline.language import bind_script
from eddyline.plan.shards.routing import Routing, RoutingTable
from eddyline.plan.shards.shares import route_all

STREAMS = "".join(f"CREATE STREAM {name} (k INT, v INT, d DOUBLE, ts TIMESTAMP) WITH (time = 'ts');" for name in "abc")
JOINED = "CREATE STREAM j AS SELECT a.k AS k, b.k AS k2, a.v AS v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;"


def routed(text: str, old: RoutingTable | None = None) -> RoutingTable:
    job = bind_script(STREAMS + text)
    records = {} if old is None else {name: old.record(name) for name in old.routings}
    return route_all(
        job.queries, [s.name for s in job.streams], {}, 4, records, steps=None if old is None else old.steps
    )


def chain(routing: Routing) -> str:
    return next(line.strip() for line in routing.explain().splitlines() if "chain:" in line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Groups contain the key of the join.
        (JOINED + "CREATE QUERY q AS SELECT k, w, count(*) AS n FROM j GROUP BY k, w", "j by j.k"),
        # Another name of the same key.
        (
            JOINED + "CREATE QUERY q AS SELECT j.v FROM j [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE j.k2 = c.k",
            "j by j.k",
        ),
        # A function of the key.
        (JOINED + "CREATE QUERY q AS SELECT k % 10 AS r, count(*) AS n FROM j GROUP BY k % 10", "j by j.k % 10"),
        # Rows that no other row has to meet.
        (JOINED + "CREATE QUERY q AS SELECT k FROM j WHERE v > 1", "j by any key"),
        # Parts of groups are merged when their window ends.
        (
            JOINED + "CREATE QUERY q AS SELECT window_end, count(*) AS n FROM j GROUP BY TUMBLE(_ts, '1 second')",
            "j by any key",
        ),
        (
            "CREATE QUERY q AS SELECT k, count(*) AS n FROM (SELECT k, v FROM a UNION ALL SELECT v, k FROM b) u GROUP BY k",
            "_q-1 by _q-1.k",
        ),
        (
            "CREATE QUERY q AS SELECT m.l, count(*) AS n FROM "
            "(EVENT SEQ(1 x, 2 y) FROM a TYPE v PARTITION BY k RETURN x.k AS l, y.d AS r) m GROUP BY m.l",
            "_q-1 by _q-1.l",
        ),
        (
            "CREATE QUERY q AS SELECT l.k, lag(l.v) OVER (PARTITION BY l.k ORDER BY l._ts) AS p FROM (SELECT k, v FROM a) l",
            "_q-1 by _q-1.k",
        ),
        (
            "CREATE QUERY q AS SELECT a.k, b.v FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k",
            "_q-1 by any key",
        ),
        # Rows of an outer join keep the key of the side that is always there.
        (
            "CREATE QUERY q AS SELECT x.k, count(*) AS n FROM "
            "(SELECT a.k, b.v FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k) x GROUP BY x.k",
            "_q-2 by _q-2.a.k; _q-1 by _q-1.k",
        ),
        (
            "CREATE QUERY e AS SELECT k, count(*) AS n FROM b GROUP BY k EMIT EVERY 1 SECOND;"
            "CREATE QUERY q AS SELECT a.v, e.n FROM a JOIN LATEST e ON a.k = e.k",
            "_q-1 by _q-1.k",
        ),
    ],
)
def test_a_key_goes_through_all_queries(text: str, said: str) -> None:
    table = routed(text)
    assert chain(table.routings["q"]) == f"chain: derived rows stay in the shards that make them, {said}"
    assert table.routings["q"].cells == 4
    again = routed(text, table)
    assert again.routes == table.routes and [again.record(name) for name in again.routings] == [
        table.record(name) for name in table.routings
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE QUERY q AS SELECT count(*) AS n FROM (SELECT k FROM a) x", "q has no key that spreads rows of _q-1"),
        ("CREATE QUERY q AS SELECT x.k FROM (SELECT k FROM a) x [ROWS 3], b [ROWS 3] WHERE x.k = b.k", "q counts all rows of _q-1"),
        # The order of rows with equal times is known where they are made.
        (JOINED + "CREATE STREAM g AS SELECT w, window_end, count(*) AS n FROM j GROUP BY TUMBLE(_ts, '1 second'), w;"
         "CREATE QUERY q AS SELECT n, w FROM g QUALIFY ROW_NUMBER() OVER (PARTITION BY n ORDER BY w) <= 2 EMIT ON CHANGE",
         "q needs the order of rows of g with equal times"),
        # First rows of a window are found where all of them are.
        ("CREATE STREAM j AS SELECT k, v FROM a; CREATE QUERY q AS SELECT k FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(_ts), '1 second')) "
         "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY v) <= 2",
         "q tells rows apart by time alone, and rows of one moment would be in one shard"),
        # A row has no partner only where all partners that it could have are.
        ("CREATE QUERY q AS SELECT a.v, b.v AS w FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.v < b.v",
         "_q-1 has no key that all its streams have"),
        ("CREATE STREAM j AS SELECT k FROM a", "no query reads j, so that nothing says where its rows are wanted"),
    ],
)  # fmt: skip
def test_why_all_of_it_is_in_one_shard(text: str, said: str) -> None:
    table = routed(text)
    found = [routing for routing in table.routings.values() if routing.placed or routing.chain]
    assert {chain(routing) for routing in found} == {f"chain: in one shard, as {said}"}
    assert all(routing.cells == 1 for routing in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JOINED + "CREATE QUERY q AS SELECT w, count(*) AS n FROM j GROUP BY w",
         "q in step 2 by {j.w}; derived rows go on from step to step, as _j does not hold b.v equal to anything of a"),
        ("CREATE QUERY q AS SELECT x.n, count(*) AS m FROM "
         "(SELECT k, window_end, count(*) AS n FROM a GROUP BY TUMBLE(ts, '1 second'), k) x GROUP BY x.n",
         "_q-1 in step 1 by {tumble_start(a.ts, INTERVAL 1000000, INTERVAL 0) + INTERVAL 1000000 + a.k}; q in step 2 by {x.n}; "
         "derived rows go on from step to step, as _q-1.n is count(*) in _q-1, which is known only where its rows have met"),
        # A query that takes each row for itself stays where its rows are.
        ("CREATE QUERY q AS SELECT x.k, count(*) AS n FROM "
         "(SELECT b.k FROM a [RANGE 1 SECOND] LEFT JOIN b [RANGE 1 SECOND] ON a.k = b.k) x GROUP BY x.k",
         "_q-2 in step 1 by {a.k, b.k}; _q-1 in step 1 where its rows are made; q in step 2 by {x.k}; derived rows go on "
         "from step to step, as _q-2.b.k is null in rows of _q-2 without a partner"),
        # -0.0 and 0.0 are equal, and have other texts.
        ("CREATE STREAM j AS SELECT a.d AS d FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.d = b.d;"
         "CREATE QUERY q AS SELECT CAST(d AS STRING) AS t, count(*) AS n FROM j GROUP BY CAST(d AS STRING)",
         "q in step 2 by {CAST(j.d AS STRING)}; derived rows go on from step to step, "
         "as _j does not hold CAST(a.d AS STRING) equal to anything of b"),
        (JOINED + "CREATE QUERY p AS SELECT k, count(*) AS n FROM j GROUP BY k;"
         "CREATE QUERY q AS SELECT j.v FROM j [RANGE 1 SECOND], c [RANGE 1 SECOND] WHERE j.v = c.k",
         "q in step 2 by {j.v, c.k}; derived rows go on from step to step, as q does not hold j.k equal to anything of c"),
    ],
)  # fmt: skip
def test_a_further_step_where_no_key_goes_through(text: str, said: str) -> None:
    table = routed(text)
    assert table.steps == 2 and chain(table.routings["q"]) == f"chain: {said}"
    assert {shard for shard in range(8) if table.routings["q"].uses(shard)} == {4, 5, 6, 7}
    again = routed(text, table)
    assert again.routes == table.routes and [again.record(name) for name in again.routings] == [
        table.record(name) for name in table.routings
    ]
    # Where the job has one step, there is one shard.
    job = bind_script(STREAMS + text)
    alone = route_all(job.queries, [s.name for s in job.streams], {}, 4, steps=1)
    assert alone.steps == 1 and alone.routings["q"].cells == 1 and "the job has 1 step" in chain(alone.routings["q"])


def test_a_query_that_comes_later_takes_the_keys_that_are_there() -> None:
    first = JOINED + "CREATE QUERY p AS SELECT k, count(*) AS n FROM j GROUP BY k;"
    old = routed(first)
    fits = routed(first + "CREATE QUERY q AS SELECT k, v, max(w) AS m FROM j GROUP BY k, v", old)
    assert fits.routings["p"] == old.routings["p"] and fits.routings["q"].cells == 4
    with pytest.raises(PlanProblem, match="query q does not fit the shards of the job that runs") as refused:
        routed(first + "CREATE QUERY q AS SELECT v, count(*) AS n FROM j GROUP BY v", old)
    assert "in parentheses" in str(refused.value)
    # Its own SELECT of the same rows always fits.
    text = JOINED.removeprefix("CREATE STREAM j AS ").removesuffix(";")
    apart = routed(first + f"CREATE QUERY q AS SELECT v, count(*) AS n FROM ({text}) x GROUP BY v", old)
    assert apart.routings["p"] == old.routings["p"]
    # What has begun in one shard stays there.
    alone = routed("CREATE STREAM s AS SELECT k, v FROM a;")
    later = routed(
        "CREATE STREAM s AS SELECT k, v FROM a; CREATE QUERY q AS SELECT k, count(*) AS n FROM s GROUP BY k", alone
    )
    assert later.routings["q"].cells == 1 and chain(later.routings["q"]) == "chain: in one shard, as _s is"


def test_a_job_with_two_steps_takes_queries_by_other_keys() -> None:
    first = JOINED + "CREATE QUERY p AS SELECT w, count(*) AS n FROM j GROUP BY w;"
    old = routed(first)
    assert old.steps == 2
    second = (
        first
        + "CREATE QUERY q AS SELECT v, count(*) AS n FROM j GROUP BY v; CREATE QUERY r AS SELECT v FROM j WHERE v > 1;"
    )
    both = routed(second, old)
    assert both.routings["p"].steps == old.routings["p"].steps and both.bits("p") == old.bits("p")
    assert both.routings["q"].step == 1 and both.routings["r"].step == 0
    # A third step is not there.
    with pytest.raises(PlanProblem, match="query s does not fit the shards of the job that runs") as refused:
        routed(second + "CREATE STREAM g AS SELECT v, window_end, count(*) AS n FROM j GROUP BY TUMBLE(_ts, '1 second'), v;"
               "CREATE QUERY s AS SELECT n, count(*) AS m FROM g GROUP BY n", both)  # fmt: skip
    assert "the job has 2 steps" in str(refused.value)


def test_a_crowd_of_queries_over_one_stream_is_in_one_shard() -> None:
    crowd = "".join(
        f"CREATE QUERY q{n} AS SELECT k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k + {n} = b.k;"
        for n in range(62)
    )
    crowd = crowd.replace("SELECT k FROM", "SELECT a.k FROM")
    before = routed(crowd)
    table = routed(crowd + "CREATE QUERY q AS SELECT x.v, count(*) AS n FROM (SELECT v FROM a) x GROUP BY x.v", before)
    assert chain(table.routings["q"]) == "chain: in one shard, as too many queries read its streams"
