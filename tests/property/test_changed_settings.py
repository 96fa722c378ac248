"""Settings that change between two runs on one checkpoint: which never change an answer, and which change what a page
says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from eddyline.settings import OPTIONS, Settings
from tests.property.changed_settings import ANNOUNCING, QUERIES, Life, answers, differing, lived, random_epochs
from tests.property.world_runs import NEUTRAL
from tests.seeds import cases, first_seed

FIRST = first_seed(2_310_000)
#: Setting -> the values that are tried beside the default: under all of them answers are those of one run.
NEVER: dict[str, Sequence[object]] = {
    "epoch_rows": (1, 7),
    "plan": ("mjoin", "bjtree", "((x y) z)"),
    "probe": ("loop",),
    "jit": ("off", "bloom", "exact"),
    "jit_control": ("one-sided", "probes", "chain"),
    "cpu_budget": ("1000000000000 cores",),
    "memory_budget": ("900000000 TB",),
    "plan_search": ("finder", "mjoin", "bjtree"),
    "route": ("lottery",),
    "scheduler": ("lwo", "swf"),
    "seed": (1, 77),
    "share": ("off",),
    "replan": ("off",),
    "checkpoint_seconds": (0, 0.5),
    "batch_seconds": (0.5,),
    "max_rows_per_batch": (50,),
    "template_index": ("scan", "imp", "hash(k)", "imp(4)"),
    "template_tuning": ("off",),
    "template_batch": ("off",),
    "heralds": ("on", "off"),
    "constraints": ("check",),
    "punctuations": ("off",),
    "purge": ("eager", "3"),
    "output_files": ("each",),
    "output_order": ("merged", "by-shard"),
    "output_seconds": (0, 0.5),
    "most_results": (1, 50),
    "most_matches": (1_000_000,),
    "row_groups": ("off",),
}
#: Settings that change what the page of checkpoints says; `constraints` only to and from `off`.
SAID = (
    "on_late", "on_bad", "on_violation", "unbounded", "unsatisfiable", "over_budget", "lease", "propagate", "shards", "constraints",
    "keep_results", "cores",
)  # fmt: skip
PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"
CASES = [(name, value) for name, values in NEVER.items() for value in values]
#: One query for each way in which rows are kept.
FEW = (
    "pair",
    "pair_all",
    "itself",
    "last_rows",
    "as_of",
    "each_two",
    "derived",
    "latest",
    "left_join",
    "unmatched",
    "bid",
    "sold_for",
)


def test_every_setting_is_of_one_kind() -> None:
    """A new setting is put into one of the tables: it changes no answer, or a page says what it changes."""
    assert {*NEVER, *SAID} == {*OPTIONS}
    assert {*NEVER} & {*SAID} == {"constraints"}
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} >= {*SAID}
    for name, values in NEVER.items():
        for value in values:
            assert getattr(Settings().with_option(name, str(value)), name) != getattr(Settings(), name), (
                f"{name} = {value} is the default"
            )
        words = [word.strip().strip("'") for word in OPTIONS[name].values.split("|")]
        kinds = {"…": 2, "cores": 1, "GB": 1, "(": 1, "100": 1}
        plain = {word for word in words if not any(sign in word for sign in kinds)}
        default = str(getattr(Settings(), name)).lower()
        tried = {str(value) for value in values} | {default} | ({"off"} if name == "constraints" else set())
        assert plain <= tried, f"{name}: {sorted(plain - tried)} is not tried"


def test_random_worlds_change_every_such_setting() -> None:
    assert {*NEUTRAL} == {*NEVER}
    for name, values in NEVER.items():
        own = {str(value) for value in values if not str(value).startswith(("(", "imp("))}
        missing = own - set(map(str, NEUTRAL[name]))
        # Numbers of rows, seconds and seeds are tried by some of their values.
        assert not missing or name in (
            "epoch_rows",
            "purge",
            "seed",
            "most_results",
            "output_seconds",
            "checkpoint_seconds",
        ), name


def check(seed: int, settings: Sequence[dict[str, object]], queries: Sequence[str], rows: int = 160) -> None:
    epochs = random_epochs(Random(seed), rows, len(settings))
    right = lived(epochs, [{}] * len(settings), queries)
    found = lived(epochs, settings, queries)
    wrong = differing(answers(found.found), answers(right.found)) + differing(answers(found.dead), answers(right.dead))
    changes = [after for number, after in enumerate(settings) if not number or after is not settings[number - 1]]
    assert not wrong, f"seed {seed}, settings {changes}:\n" + "\n".join(wrong)
    assert sum(map(len, answers(right.found).values())) > len(queries), f"seed {seed} says little"


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}={value}" for name, value in CASES])
def test_a_setting_that_changes_between_two_runs(name: str, value: object) -> None:
    rng = Random(f"{FIRST} {name} {value}")
    one, two = ({}, {name: value}) if rng.random() < 0.6 else ({name: value}, {})
    check(rng.randrange(1 << 30), [one] * 2 + [two] * 2, ("table_of", "three", *rng.sample(FEW, 3)), 60)


def random_settings(rng: Random, most: int = 6) -> dict[str, object]:
    """Some settings of all queries, and at times others of some queries only."""
    chosen = {name: rng.choice(NEVER[name]) for name in rng.sample(sorted(NEVER), rng.randint(0, most))}
    if rng.random() < 0.5:
        alone = [name for name in sorted(NEVER) if name != "plan"]
        for query in rng.sample(sorted(QUERIES), rng.randint(1, 20)):
            chosen |= {f"{query}.{name}": rng.choice(NEVER[name]) for name in rng.sample(alone, rng.randint(1, 3))}
    return chosen


@pytest.mark.property
@pytest.mark.parametrize("number", range(cases(2, soak=40)))
def test_all_kinds_of_state_under_settings_that_change(number: int) -> None:
    rng = Random(FIRST + number)
    settings: list[dict[str, object]] = []
    for _ in range(7):
        settings.append(random_settings(rng) if not settings or rng.random() < 0.7 else settings[-1])
    check(rng.randrange(1 << 30), settings, tuple(QUERIES))


@pytest.mark.parametrize(
    ("first", "change", "second"),
    [
        ({"propagate": "on"}, {"purge": "100", "propagate": "7"}, {"punctuations": "off"}),
        ({}, {"purge": "eager"}, {"punctuations": "off"}),
        ({}, {"purge": "eager"}, {"share": "off", "purge": "3"}),
    ],
)
def test_a_trigger_that_was_changed_while_the_job_ran(
    first: dict[str, object], change: dict[str, str], second: dict[str, object]
) -> None:
    """What `eddyline query set` has changed holds after a restart, as far as the query still has it."""
    queries, epochs = ("bid", "bid_too", "sold_for"), random_epochs(Random(3), 160, 4)
    right = answers(lived(epochs, [{}] * 4, queries).found)
    life = Life(first, queries)
    life.step(epochs[0])
    life.pipeline.triggers.change("bid", change)
    life.step(epochs[1])
    for settings, rows in ((second, epochs[2]), ({}, epochs[3])):
        life.save()
        life.open(settings)
        life.step(rows)
    life.step({}, closing=True)
    found = answers(life.found)
    assert not differing({name: found[name] for name in queries}, {name: right[name] for name in queries})


@pytest.mark.parametrize("value", ["on", "3", "2 seconds"])
def test_values_that_are_announced_from_another_run_on(value: str) -> None:
    """`propagate` changes what is said beside the results, and no result."""
    rng = Random(f"{FIRST} {value}")
    epochs = random_epochs(rng, 200, 6)
    announced = 0
    for one, two in (
        ({}, {"propagate": value}),
        ({"propagate": value}, {}),
        ({"propagate": value}, {"propagate": "1"}),
    ):
        right = answers(lived(epochs, [{}] * 6, ANNOUNCING).found)
        made = lived(epochs, [one] * 3 + [two] * 3, ANNOUNCING)
        found = answers(made.found)
        announced += sum(len(rows) for name, rows in found.items() if name not in right)
        assert not differing({name: rows for name, rows in found.items() if name in right}, right)
    # Half a run of few closings may have none to announce.
    assert announced


@pytest.mark.long
@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}={value}" for name, value in CASES])
def test_every_value_with_every_kind_of_state(name: str, value: object) -> None:
    for seed in range(FIRST + 1000, FIRST + 1003):
        for one, two in (({}, {name: value}), ({name: value}, {})):
            check(seed, [one] * 4 + [two] * 4, tuple(QUERIES))
            check(seed, [one, two, dict(one), dict(two), dict(one), dict(two)], tuple(QUERIES))
