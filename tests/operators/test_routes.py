"""The lottery: inputs that pass on little come first, orders stay connected, draws repeat."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.routing.lottery import LotteryRoute, Tickets


def star(session: Session, **options: str | int) -> JoinGroup:
    session.execute("CREATE STREAM hub (a BIGINT, b BIGINT, c BIGINT, ts TIMESTAMP) WITH (time='ts')")
    for name in "abc":
        session.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WITH (time='ts')")
    session.query(
        "star",
        "SELECT hub.a, hub.b, hub.c FROM hub [RANGE 5 SECONDS], a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS]"
        " WHERE hub.a = a.k AND hub.b = b.k AND hub.c = c.k",
        plan="mjoin",
        jit="off",
        **options,
    )
    group = session.pipeline.queries["star"].group
    assert isinstance(group, JoinGroup)
    return group


def places(node: JoinNode) -> dict[str, int]:
    return {one.stream.name: number for number, one in enumerate(node.inputs)}  # type: ignore[attr-defined]


def feed(session: Session, epoch: int, selective: str, rng: np.random.Generator) -> None:
    ts = pa.array(np.sort(rng.integers(epoch * 1_000_000, (epoch + 1) * 1_000_000, 300)), pa.timestamp("us"))
    session.push(
        "hub", pa.table({name: rng.integers(0, 2000 if name == selective else 40, 300) for name in "abc"} | {"ts": ts})
    )
    for name in "abc":
        session.push(name, pa.table({"k": rng.integers(0, 40, 60), "ts": ts[::5]}))
    session.step()


def test_tickets_tell_inputs_apart_by_what_they_pass_on() -> None:
    assert Tickets().passed_on == 1.0
    assert Tickets(1000, 10).weight > 1e6 * Tickets(1000, 100).weight
    worn = Tickets(1000, 500)
    worn.decay(0.5)
    assert (worn.consumed, worn.produced) == (500, 250)


def test_the_lottery_follows_a_flip_within_a_few_batches() -> None:
    with Session() as session:
        group = star(session, route="lottery", seed=3)
        rng = np.random.default_rng(1)
        node = group.nodes[-1][0]
        at = places(node)
        policy = group.policy(LotteryRoute)
        assert policy is not None
        for number, selective in enumerate(["a"] * 6 + ["c"] * 6):
            feed(session, number, selective, rng)
            if number in (5, 11):
                assert policy.order(node, at["hub"])[0] == at[selective]


def test_orders_stay_connected() -> None:
    with Session() as session:
        node = star(session, route="lottery").nodes[-1][0]
        at = places(node)
        policy = LotteryRoute(5)
        for _ in range(50):
            for name in "abc":
                policy.observed(node, at[name], at["hub"], 100, 900)
                order = policy.order(node, at[name])
                assert order[0] == at["hub"] and sorted((*order, at[name])) == [0, 1, 2, 3]


def test_before_anything_was_seen_the_planned_order_is_taken() -> None:
    with Session() as session:
        node = star(session).nodes[-1][0]
        assert LotteryRoute().order(node, 0) == node.orders[0]


def test_the_same_seed_draws_the_same_lots() -> None:
    with Session() as session:
        node = star(session).nodes[-1][0]
        hub = places(node)["hub"]
        drawn = []
        for seed in (1, 1, 2):
            policy = LotteryRoute(seed)
            for other in policy.tickets(node, hub):
                policy.observed(node, hub, other, 100, 50)
            drawn.append([policy.order(node, hub) for _ in range(20)])
        assert drawn[0] == drawn[1] != drawn[2]
        assert len(set(drawn[0])) > 1


@pytest.mark.parametrize("seed", [0, 1])
def test_a_route_never_changes_an_answer(seed: int) -> None:
    answers = []
    for route in ("fixed", "lottery"):
        with Session() as session:
            star(session, route=route, seed=seed)
            rng = np.random.default_rng(seed)
            for number, selective in enumerate("abcab"):
                feed(session, number, selective, rng)
            session.run(once=True)
            found = session.queries["star"].table()
            assert found.column("_ts").to_pylist() == sorted(found.column("_ts").to_pylist())
            answers.append(sorted(tuple(row.values()) for row in found.to_pylist()))
    assert answers[0] == answers[1] and answers[0]


def test_routes_do_not_share_a_join() -> None:
    with Session() as session:
        one = star(session, route="lottery", seed=1)
        session.query("other", session.job.catalog.query("star").text, plan="mjoin", jit="off")
        assert session.pipeline.queries["other"].group is not one


@pytest.mark.parametrize(("route", "keys"), [("fixed", 2), ("lottery", 1)])
def test_with_fixed_orders_the_last_probe_of_a_ring_asks_for_all_keys_at_once(route, keys):
    # One index per partner would find pairs by one key and refuse most of them by the other.
    with Session() as session:
        for name in "abc":
            session.execute(f"CREATE STREAM {name} (x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP) WITH (time = 'ts')")
        windows = ", ".join(f"{name} [RANGE 1 SECOND]" for name in "abc")
        session.query(
            "q",
            f"SELECT a.ts AS at FROM {windows} WHERE a.x = b.x AND b.y = c.y AND a.z = c.z",
            plan="mjoin",
            route=route,
        )
        ((node, _),) = next(iter(session.pipeline.groups.values())).nodes
        assert [len(node.steps(origin, node.orders[origin])[-1].probe_keys) for origin in range(3)] == [keys] * 3


def two_kinds(session: Session, **options: str | int) -> JoinGroup:
    """Hub rows of kind 0 are wanted by a query that takes few rows of a, those of kind 1 by one that takes few of b."""
    session.execute("CREATE STREAM hub (g BIGINT, k BIGINT, ts TIMESTAMP) WITH (time='ts')")
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (k BIGINT, f BIGINT, ts TIMESTAMP) WITH (time='ts')")
    for kind, name in enumerate("ab"):
        session.query(
            f"few_{name}",
            "SELECT hub.k, a.f AS x, b.f AS y FROM hub [RANGE 1 SECOND], a [RANGE 1 SECOND], b [RANGE 1 SECOND]"
            f" WHERE hub.k = a.k AND hub.k = b.k AND hub.g = {kind} AND {name}.f = 0",
            plan="mjoin",
            jit="off",
            replan="off",
            **options,
        )
    (group,) = session.pipeline.groups.values()
    return group


def feed_kinds(session: Session, epoch: int, rng: np.random.Generator) -> None:
    first = epoch * 1_000_000
    ts = pa.array(np.sort(rng.integers(first, first + 1_000_000, 2_000)), pa.timestamp("us"))
    session.push("hub", pa.table({"g": rng.integers(0, 2, 2_000), "k": rng.integers(0, 30, 2_000), "ts": ts}))
    for name in "ab":
        session.push(name, pa.table({"k": rng.integers(0, 30, 200), "f": rng.integers(0, 40, 200), "ts": ts[::10]}))
    session.step()


def test_rows_of_equal_lineage_are_routed_together() -> None:
    """Each kind of row probes the input first that its own query takes few rows of: no one order does that."""
    found, work = {}, {}
    for route in ("fixed", "lottery"):
        with Session() as session:
            group = two_kinds(session, route=route)
            rng = np.random.default_rng(6)
            for epoch in range(8):
                feed_kinds(session, epoch, rng)
            session.run(once=True)
            found[route] = {
                name: sorted(map(str, query.table().to_pylist())) for name, query in session.queries.items()
            }
            work[route] = sum(c.probes + c.partials for c in group.counters.values())
            if route == "lottery":
                policy = group.policy(LotteryRoute)
                assert policy is not None
                node = group.nodes[-1][0]
                at = places(node)
                firsts = set()
                kinds = policy._origins[node.name, at["hub"]].kinds
                for kind in [kinds[lineage] for lineage in kinds if lineage]:
                    assert kind.served == 1
                    firsts.add(min((at["a"], at["b"]), key=lambda n: kind.tickets[n].passed_on))
                assert firsts == {at["a"], at["b"]}
    assert found["fixed"] == found["lottery"] and all(found["fixed"].values())
    assert work["lottery"] < 0.75 * work["fixed"]


def test_conditions_are_drawn_like_probes() -> None:
    """A condition that holds for nearly everything waits behind a probe that passes on little; one that seldom holds
    comes first."""
    for bound, first in ((2_000_000, "c"), (0, "condition")):
        with Session() as session:
            for name in "abc":
                session.execute(f"CREATE STREAM {name} (k BIGINT, j BIGINT, v BIGINT, ts TIMESTAMP) WITH (time='ts')")
            query = session.query(
                "q",
                "SELECT a.v, b.v AS w, c.v AS x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]"
                f" WHERE a.k = b.k AND b.j = c.j AND a.v + b.v < {bound}",
                plan="mjoin",
                jit="off",
                replan="off",
                route="lottery",
            )
            rng = np.random.default_rng(2)
            for epoch in range(6):
                ts = pa.array(
                    np.sort(rng.integers(epoch * 1_000_000, (epoch + 1) * 1_000_000, 500)), pa.timestamp("us")
                )
                for name in "abc":
                    keys = {
                        "k": rng.integers(0, 20, 500),
                        "j": rng.integers(0, 20_000, 500),
                        "v": rng.integers(0, 1_000_000, 500),
                    }
                    session.push(name, pa.table({**keys, "ts": ts}))
                session.step()
            group = session.pipeline.queries["q"].group
            node = group.nodes[-1][0]
            at = places(node)
            order = group.policy(LotteryRoute).order(node, at["a"])
            assert order[0] == at["b"] and sorted(order) == sorted({at["b"], at["c"], 3})
            assert order[1] == (at["c"] if first == "c" else 3)
            session.run(once=True)
            assert (query.table().num_rows > 0) == (bound > 0)
