"""Which tree a query gets, and what is said when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.errors import PlanProblem, Unsupported
from eddyline.language import bind_script
from eddyline.plan.explain import cost_lines
from eddyline.plan.prepare import explained, prepare
from eddyline.plan.tree.budget import SHIPPED, SHIPPED_INDEX, keep_costs, unit_costs
from eddyline.plan.tree.cost import UnitCosts
from eddyline.plan.tree.tree_choice import TreeChoice, aliases_of, choose, choose_tree, positions_of

# a and b hardly ever meet, a and c often do.
KNOWN = """
    CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = 1000, distinct_x = 100000, distinct_y = 10);
    CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = 1000, distinct_x = 100000);
    CREATE STREAM c (y BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = 1000, distinct_y = 10);
    CREATE TABLE t (x BIGINT) WITH (format = 'parquet', path = 't.parquet');
"""
UNKNOWN = """
    CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE STREAM c (y BIGINT, ts TIMESTAMP) WITH (time = 'ts');
    CREATE TABLE t (x BIGINT) WITH (format = 'parquet', path = 't.parquet');
"""
QUERY = "SELECT a.x FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.x = b.x AND a.y = c.y"


@pytest.fixture(autouse=True)
def shipped_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def chosen(world: str, settings: str = "", query: str = QUERY) -> TreeChoice:
    job = bind_script(f"{world} {settings} CREATE QUERY q AS {query}")
    return choose(prepare(job.queries[0]), {**job.catalog.streams, **job.catalog.tables})


def refusal(world: str, settings: str) -> PlanProblem | Unsupported:
    job = bind_script(f"{world} {settings} CREATE QUERY q AS {QUERY}")
    with pytest.raises((PlanProblem, Unsupported)) as caught:
        choose_tree(prepare(job.queries[0]), {**job.catalog.streams, **job.catalog.tables})
    return caught.value


def test_nothing_known_is_one_node() -> None:
    choice = chosen(UNKNOWN)
    assert (str(choice.tree), choice.orders, choice.assumed) == ("(a b c)", (), ("a", "b", "c"))


def test_what_is_declared_is_searched_with() -> None:
    choice = chosen(KNOWN)
    assert str(choice.tree) == "((a b) c)"
    assert choice.price.cpu < chosen(KNOWN, "SET plan = 'mjoin';").price.cpu
    assert choice.found.runner_up is not None and choice.assumed == ()


def test_probe_orders_of_an_mjoin_follow_the_statistics() -> None:
    # From c, a comes first whatever its selectivity: there is no other way to b.
    assert chosen(KNOWN, "SET plan = 'mjoin';").orders == (((0, 1, 2), ((1, 2), (0, 2), (0, 1))),)


def test_the_search_can_be_named() -> None:
    assert str(chosen(KNOWN, "SET plan_search = 'mjoin';").tree) == "(a b c)"
    assert chosen(KNOWN, "SET plan_search = 'finder';").tree == chosen(KNOWN).tree
    assert chosen(KNOWN, "SET plan_search = 'bjtree';").tree.shape == "bjtree"
    assert str(chosen(KNOWN, "SET plan = 'bjtree';").tree) == "((a b) c)"
    assert str(chosen(UNKNOWN, "SET plan = 'bjtree';").tree) == "((a b) c)"


def test_memory_decides_against_stores() -> None:
    roomy = chosen(KNOWN)
    mjoin = chosen(KNOWN, "SET plan = 'mjoin';")
    between = round((roomy.price.memory + mjoin.price.memory) / 2)
    assert str(chosen(KNOWN, f"SET memory_budget = '{between} B';").tree) == "(a b c)"


def test_two_streams_and_a_table() -> None:
    choice = chosen(
        KNOWN, query="SELECT a.x FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], t WHERE a.x = b.x AND b.x = t.x"
    )
    assert str(choice.tree) == "(a b t)"
    more = chosen(KNOWN, query=QUERY.replace(" WHERE", ", t WHERE") + " AND b.x = t.x")
    assert str(more.tree) == "((a b t) c)"


def test_nothing_fits() -> None:
    memory = refusal(KNOWN, "SET memory_budget = '10 KB';")
    assert memory.message == "no plan of query q fits the memory budget"
    assert "where the job may use 10 kB" in memory.detail and "times as much" in memory.detail
    cpu = refusal(KNOWN, "SET cpu_budget = '0.0001 cores';")
    assert cpu.message == "no plan of query q fits the CPU budget" and cpu.exit_code == 2
    assumed = refusal(UNKNOWN, "SET memory_budget = '1 KB';")
    assert "the rate of a, b, c is assumed" in assumed.detail


def test_over_budget() -> None:
    assert chosen(KNOWN, "SET memory_budget = '10 KB'; SET over_budget = 'warn';").bound == "memory"
    job = bind_script(f"{KNOWN} SET memory_budget = '10 KB'; SET over_budget = 'warn'; CREATE QUERY q AS {QUERY}")
    assert str(choose_tree(prepare(job.queries[0]), job.catalog.streams)) == "(a b c)"
    refused = refusal(KNOWN, "SET memory_budget = '10 KB'; SET over_budget = 'spill';")
    assert "with payload on disk" in refused.detail and "spill" not in refused.hint
    assert "SET over_budget = 'spill'" in refusal(KNOWN, "SET memory_budget = '10 KB';").hint
    # Spilling frees memory and no CPU.
    assert "spill" not in refusal(KNOWN, "SET cpu_budget = '0.0001 cores';").hint
    assert refusal(KNOWN, "SET cpu_budget = '0.0001 cores'; SET over_budget = 'spill';").message.endswith(
        "fits the CPU budget"
    )
    assert refusal(KNOWN, "SET plan = '((a c) b)'; SET memory_budget = '10 KB';").message.endswith(
        "fits the memory budget"
    )


def test_explain_says_that_payload_goes_to_disk() -> None:
    whole = chosen(KNOWN, "SET plan = 'mjoin';").price.memory
    job = bind_script(
        f"{KNOWN} SET plan = 'mjoin'; SET memory_budget = {int(0.9 * whole)}; SET over_budget = 'spill'; CREATE QUERY q AS {QUERY}"
    )
    lines = explained(prepare(job.queries[0]), {**job.catalog.streams, **job.catalog.tables}).splitlines()
    assert any(line.startswith("memory: ") and line.endswith(", payload on disk") for line in lines)


def test_explain_shows_costs_budgets_and_the_runner_up() -> None:
    job = bind_script(f"{KNOWN} SET cpu_budget = '0.8 cores'; SET memory_budget = '2 GB'; CREATE QUERY q AS {QUERY}")
    lines = explained(prepare(job.queries[0]), {**job.catalog.streams, **job.catalog.tables}).splitlines()
    assert lines[1].startswith("tree: ")
    shown = dict(line.split(": ", 1) for line in lines if ": " in line)
    assert shown["cpu"].endswith(" of 0.8 cores") and shown["memory"].endswith(" of 2 GB")
    assert "cores" in shown["runner-up"]
    one = bind_script(f"{KNOWN} CREATE QUERY q AS SELECT x FROM b")
    lowered = prepare(one.queries[0])
    assert cost_lines(lowered, choose(lowered, one.catalog.streams)) == {}


def test_measured_costs_are_kept_and_used(tmp_path: Path) -> None:
    assert unit_costs() == SHIPPED
    measured = UnitCosts(1e-6, 2e-6, 3e-6, 4e-6)
    assert keep_costs(measured, SHIPPED_INDEX) == tmp_path / "eddyline" / "costs.json"
    assert unit_costs() == measured
    (tmp_path / "eddyline" / "costs.json").write_text('{"costs": 3, "and": "more"}')
    with pytest.raises(PlanProblem, match="holds no unit costs"):
        unit_costs()


def test_positions_there_and_back() -> None:
    job = bind_script(f"{KNOWN} CREATE QUERY q AS {QUERY}")
    lowered = prepare(job.queries[0])
    tree = choose_tree(lowered, job.catalog.streams)
    assert aliases_of(positions_of(tree, lowered), lowered.aliases) == tree
