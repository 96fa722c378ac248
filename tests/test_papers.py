"""docs/papers.md names files, functions and tests that are there, and its counts of verdicts are those of its tables."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "papers.md"
VERDICTS = ("as described", "replaced", "partly", "not done", "does not apply")
#: `operators/join/node.py: JoinNode.probe` is code of the engine, `tests/test_x.py::test_y` a test.
PLACE = re.compile(r"`(?P<path>[\w./-]+\.(?:py|md|json))(?:(?P<mark>::|: )(?P<name>[\w.]+))?`")
CELL = re.compile(r"(?<!\\)\|")
#: Sentences of the page have at most this many words.
MOST_WORDS = 35


class Mechanism(NamedTuple):
    document: str
    section: str
    what: str
    places: str
    tests: str
    verdict: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in CELL.split(line.strip().strip("|"))]


def read_mechanisms(text: str) -> list[Mechanism]:
    found, document = [], ""
    for line in text.splitlines():
        if line.startswith("## Document "):
            document = line.removeprefix("## ").partition(":")[0]
        elif document and line.startswith("| ") and not line.startswith(("| section ", "| --- ")):
            found.append(Mechanism(document, *cells(line)))
    return found


def read_counts(text: str) -> dict[str, Counter[str]]:
    """The table at the top: how many mechanisms of each document have each verdict."""
    table = text.partition("## Document ")[0]
    lines = [cells(line) for line in table.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    head, *rows = lines
    return {row[0]: Counter(dict(zip(head[1:], map(int, row[1:]), strict=True))) for row in rows}


TEXT = PAGE.read_text()
MECHANISMS = read_mechanisms(TEXT)


def file_of(path: str) -> Path:
    """Paths outside of `bench`, `docs` and `tests` begin at the package."""
    return ROOT / path if path.startswith(("bench/", "docs/", "tests/")) else ROOT / "src" / "eddyline" / path


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions and classes at the top of a module, and the methods of classes as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return frozenset(found)


def missing_places(text: str) -> list[str]:
    missing = []
    for place in PLACE.finditer(text):
        path = file_of(place["path"])
        if not path.is_file() or (place["name"] and place["name"] not in names_in(path)):
            missing.append(place[0])
    return missing


def verdict_of(mechanism: Mechanism) -> str:
    return mechanism.verdict.partition(":")[0]


def test_every_file_function_and_test_is_there() -> None:
    assert missing_places(TEXT) == []


def test_every_code_span_of_a_place_is_read() -> None:
    """A place that is written in another form would be believed without a look."""
    strange = [
        span
        for mechanism in MECHANISMS
        for span in re.findall(r"`[^`]+`", f"{mechanism.places} {mechanism.tests}")
        if not PLACE.fullmatch(span)
    ]
    assert strange == []


def test_tests_are_tests_and_results_are_kept() -> None:
    for mechanism in MECHANISMS:
        for place in PLACE.finditer(mechanism.tests):
            assert place["path"].startswith(("tests/", "bench/papers/")), mechanism.what
            if place["path"].startswith("tests/"):
                assert place["mark"] != ": ", mechanism.what
                assert place["name"] is None or place["name"].startswith("test_"), mechanism.what


def test_a_verdict_is_one_of_five_and_has_its_reason() -> None:
    for mechanism in MECHANISMS:
        word, colon, reason = mechanism.verdict.partition(":")
        assert word in VERDICTS, mechanism.what
        assert mechanism.section and mechanism.what
        if word == "as described":
            assert mechanism.places != "—" and mechanism.tests != "—", mechanism.what
            assert bool(colon) == bool(reason.strip()), mechanism.what
        else:
            assert reason.strip(), mechanism.what


def test_the_counts_at_the_top_are_those_of_the_tables() -> None:
    counted: dict[str, Counter[str]] = {}
    for mechanism in MECHANISMS:
        for name in (mechanism.document, "all"):
            counted.setdefault(name, Counter())[verdict_of(mechanism)] += 1
    stated = read_counts(TEXT)
    assert stated == {
        name: Counter({"mechanisms": count.total(), **{verdict: count[verdict] for verdict in VERDICTS}})
        for name, count in counted.items()
    }


def test_what_is_left_out_on_purpose_is_said() -> None:
    on_purpose = [mechanism for mechanism in MECHANISMS if "on purpose" in mechanism.verdict]
    section = TEXT.partition("## Left out on purpose")[2].partition("\n## ")[0]
    assert len(on_purpose) == len(re.findall(r"^- ", section, re.M)) == 3
    assert all(verdict_of(mechanism) == "not done" for mechanism in on_purpose)


def test_sentences_are_short() -> None:
    prose = [line for line in TEXT.splitlines() if not line.startswith(("|", "#"))]
    texts = [*" ".join(prose).split(". "), *(cell for m in MECHANISMS for cell in re.split(r"[;.] ", m.verdict))]
    assert [text for text in texts if len(text.split()) > MOST_WORDS] == []


def test_a_name_that_has_gone_is_found() -> None:
    assert missing_places("`operators/join/node.py: JoinNode.no_such_method` and `operators/no_such_file.py`") == [
        "`operators/join/node.py: JoinNode.no_such_method`",
        "`operators/no_such_file.py`",
    ]
