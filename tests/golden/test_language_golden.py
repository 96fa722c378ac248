"""Runs the goldens of the language: texts and how they parse, texts and how they are refused.

A `.cq` file holds cases. Each begins with `# name:` and may have more `#` lines; then come statements, a line
`----`, and what is expected: under `parse` the rendered statements, under `errors` the text of the error. With
REWRITE_GOLDEN=1 the expectations are written anew from what happens.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from eddyline.errors import UserError
from eddyline.language import bind_script, parse_script, render

HERE = Path(__file__).parent
REWRITE = os.environ.get("REWRITE_GOLDEN") == "1"

#: What every case under `errors` may refer to; a case that needs more declares it.
WORLD = """
CREATE STREAM bids (item BIGINT, bidder STRING, price DOUBLE, amount DECIMAL(10, 2), day DATE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM asks (item BIGINT, seller STRING, price DOUBLE, open BOOLEAN, ts TIMESTAMP) WITH (time = 'ts');
CREATE TABLE items (item BIGINT, title STRING) WITH (format = 'parquet', path = 'items.parquet');
"""


@dataclass(frozen=True)
class Case:
    file: Path
    name: str
    header: str
    statements: str
    expected: str


def cases(folder: str) -> list[Case]:
    found = []
    for file in sorted((HERE / folder).glob("*.cq")):
        for block in file.read_text().split("# name:")[1:]:
            head, _, expected = block.partition("\n----\n")
            lines = head.split("\n")
            header = [line for line in lines[1:] if line.startswith("#")]
            statements = "\n".join(lines[1 + len(header) :])
            found.append(Case(file, lines[0].strip(), "\n".join(header), statements, expected.strip("\n")))
    return found


def rewrite(case: Case, actual: str) -> None:
    """Puts what happened in the place of what was expected."""
    head = f"# name: {case.name}\n" + (case.header + "\n" if case.header else "") + case.statements + "\n----\n"
    text = case.file.read_text()
    start = text.index(head) + len(head)
    end = text.find("\n# name:", start - 1)
    case.file.write_text(text[:start] + actual + ("\n" if end < 0 else "\n" + text[end:]))
    print(f"{case.file.name}: {case.name}\n{actual}")


def check(case: Case, actual: str) -> None:
    if REWRITE and actual != case.expected:
        rewrite(case, actual)
    else:
        assert actual == case.expected


def label(case: Case) -> str:
    return f"{case.file.stem}/{case.name}"


@pytest.mark.parametrize("case", cases("parse"), ids=label)
def test_parse(case: Case) -> None:
    statements = parse_script(case.statements)
    texts = [render(s) + ";" for s in statements]
    for statement, text in zip(statements, texts, strict=True):
        assert parse_script(text) == [statement]
    check(case, "\n".join(texts))


@pytest.mark.parametrize("case", cases("errors"), ids=label)
def test_error(case: Case) -> None:
    job = bind_script(WORLD)
    with pytest.raises(UserError) as caught:
        for statement in parse_script(case.statements):
            job.apply(statement)
    check(case, f"{type(caught.value).__name__}: {caught.value}")


def test_names_are_unique() -> None:
    for folder in ("parse", "errors"):
        names = [label(c) for c in cases(folder)]
        assert names and len(names) == len(set(names))
