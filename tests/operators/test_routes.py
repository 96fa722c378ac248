"""The lottery: inputs that pass on little come first, orders stay connected, draws repeat."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline import Session
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.node import JoinNode
from eddyline.operators.join.routes import LotteryRoute, Tickets


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
    session.push("hub", pa.table({name: rng.integers(0, 2000 if name == selective else 40, 300) for name in "abc"} | {"ts": ts}))
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
        policy = node.policy
        assert isinstance(policy, LotteryRoute)
        for number, selective in enumerate(["a"] * 6 + ["c"] * 6):
            feed(session, number, selective, rng)
            if number in (5, 11):
                assert policy.route(node, at["hub"])[0] == at[selective]


def test_orders_stay_connected() -> None:
    with Session() as session:
        node = star(session, route="lottery").nodes[-1][0]
        at = places(node)
        policy = LotteryRoute(5)
        for _ in range(50):
            for name in "abc":
                policy.observed(node, at[name], at["hub"], 100, 900)
                order = policy.route(node, at[name])
                assert order[0] == at["hub"] and sorted((*order, at[name])) == [0, 1, 2, 3]


def test_before_anything_was_seen_the_planned_order_is_taken() -> None:
    with Session() as session:
        node = star(session).nodes[-1][0]
        assert LotteryRoute().route(node, 0) == node.orders[0]


def test_the_same_seed_draws_the_same_lots() -> None:
    with Session() as session:
        node = star(session).nodes[-1][0]
        hub = places(node)["hub"]
        drawn = []
        for seed in (1, 1, 2):
            policy = LotteryRoute(seed)
            for other in policy.tickets(node, hub):
                policy.observed(node, hub, other, 100, 50)
            drawn.append([policy.route(node, hub) for _ in range(20)])
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
        session.query("q", f"SELECT a.ts AS at FROM {windows} WHERE a.x = b.x AND b.y = c.y AND a.z = c.z", plan="mjoin", route=route)
        ((node, _),) = next(iter(session.pipeline.groups.values())).nodes
        assert [len(node.steps(origin, node.orders[origin])[-1].probe_keys) for origin in range(3)] == [keys] * 3
