"""Constraints of workflows: hand-worked nets, and random trees against all their runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eddyline.connectors.bpmn import read_net
from eddyline.errors import PlanProblem
from eddyline.plan.patterns.workflow import constraints_of
from tests.seeds import cases, first_seed


def rules(tmp_path: Path, tree: Any) -> set[str]:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(tree))
    return {str(rule) for rule in constraints_of(read_net(str(path)))}


def test_sequence_choice_parallel_and_loop(tmp_path: Path) -> None:
    found = rules(tmp_path, {"sequence": ["A", {"choice": ["B", "C"]}, {"parallel": ["D", {"loop": "E"}]}, "F"]})
    assert {
        "BEGIN(A)",
        "END(F)",
        "EXCLUSIVE(B, C)",
        "PRIOR(B, D)",
        "ONCE(D)",
        "REQUIRE(A, E)",
        "REQUIRE(B, A)",
    } <= found
    assert not {"ONCE(E)", "PRIOR(D, E)", "PRIOR(E, D)", "REQUIRE(A, B)", "EXCLUSIVE(B, D)"} & found


def test_what_comes_again_neither_begins_nor_ends(tmp_path: Path) -> None:
    found = rules(tmp_path, {"loop": {"sequence": ["A", "B"]}})
    assert not any(rule.startswith(("BEGIN", "END", "ONCE", "PRIOR")) for rule in found)
    assert {"REQUIRE(A, B)", "REQUIRE(B, A)"} <= found


def test_too_many_markings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps({"parallel": [{"sequence": [f"{a}{n}" for n in range(5)]} for a in "abcdef"]}))
    with pytest.raises(PlanProblem, match="too many states"):
        constraints_of(read_net(str(path)), most=1_000)


def _runs(tree: Any) -> Iterator[tuple[str, ...]]:
    """Every run of a tree, with loops of one and two rounds."""
    if tree is None:
        yield ()
    elif isinstance(tree, str):
        yield (tree,)
    else:
        ((kind, body),) = tree.items()
        if kind == "loop":
            once = list(_runs(body))
            yield from once
            yield from (a + b for a in once for b in once)
        elif kind == "choice":
            for part in body:
                yield from _runs(part)
        elif kind == "sequence":
            found: list[tuple[str, ...]] = [()]
            for part in body:
                found = [a + b for a in found for b in _runs(part)]
            yield from found
        else:
            found = [()]
            for part in body:
                found = [c for a in found for b in _runs(part) for c in _shuffled(a, b)]
            yield from found


def _shuffled(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not a or not b:
        yield a + b
        return
    yield from ((a[0], *rest) for rest in _shuffled(a[1:], b))
    yield from ((b[0], *rest) for rest in _shuffled(a, b[1:]))


def _tree(rng: Random, depth: int) -> Any:
    kind = rng.choice(["leaf", "sequence", "choice", "parallel", "loop"]) if depth else "leaf"
    if kind == "leaf":
        return None if rng.random() < 0.1 else rng.choice("ABCDE")
    if kind == "loop":
        return {"loop": _tree(rng, depth - 1)}
    return {kind: [_tree(rng, depth - 1) for _ in range(2)]}


def test_rules_are_those_of_all_runs(tmp_path: Path) -> None:
    for seed in range(first_seed(17_700), first_seed(17_700) + cases(150)):
        tree = {"sequence": [_tree(Random(seed), 2)]}
        runs = set(_runs(tree))
        labels = sorted({t for run in runs for t in run})
        found = rules(tmp_path, tree)
        ends = next((r[4:-1].split(", ") for r in found if r.startswith("END(")), [])
        after = {(a, b) for run in runs for i, b in enumerate(run) for a in run[i + 1 :]}
        for a in labels:
            assert (f"ONCE({a})" in found) == ((a, a) not in after and a not in ends), f"seed {seed}: {tree}"
            for b in labels:
                if a == b:
                    continue
                required = all(b in run for run in runs if a in run)
                assert (f"REQUIRE({a}, {b})" in found) == required, f"seed {seed}: {tree} {a} {b}"
                never = not any(a in run and b in run for run in runs)
                if a < b and not (a in ends and b in ends):
                    assert (f"EXCLUSIVE({a}, {b})" in found) == never, f"seed {seed}: {tree} {a} {b}"
                if b not in ends:
                    assert (f"PRIOR({a}, {b})" in found) == ((a, b) not in after and not never), (
                        f"seed {seed}: {tree} {a} {b}"
                    )
        if ends:
            assert all(not run or (run[-1] in ends and not set(ends) & set(run[:-1])) for run in runs), (
                f"seed {seed}: {tree}"
            )
