"""Plain English: the subject of a sentence is a class, a function, a row, a query or an operator, not a person.

Comments, docstrings, messages and pages do without the words below (CONTRIBUTING.md says why). A name in backquotes is a name.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = re.compile(r"\b(who|whom|whoever|somebody|nobody|anybody|everybody|someone|anyone|told|heard|hears?|so many)\b", re.I)
#: Where one of the words is right: a reader of these pages is a person.
ALLOWED = {"docs/security.md", "CONTRIBUTING.md", "docs/reading.md"}
FILES = [
    path.relative_to(ROOT)
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")])
    if str(path.relative_to(ROOT)) not in ALLOWED
]


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page; of a program the comments, docstrings and other texts."""
    text = (ROOT / path).read_text()
    if path.suffix == ".md":
        # Without snippets, whose lines stay counted.
        prose = re.sub(r"^ *```.*?^ *```", lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
        yield from enumerate(prose.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A text without a blank is a name: an attribute, a key, a column.
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield from enumerate(token.string.splitlines(), token.start[0])


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_riddles(path: Path) -> None:
    found = []
    for number, line in sentences(path):
        plain = re.sub(r"`[^`]*`|^ *\w+:", "", line)
        if words := WORDS.findall(plain):
            found.append(f"{path}:{number}: {', '.join(words)}: {line.strip()}")
    assert not found, "\n".join(found)
