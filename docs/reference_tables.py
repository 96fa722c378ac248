"""The reference pages that are made from the code: functions, settings and the names of Python.

Answer   `python docs/reference_tables.py` writes functions.md, settings.md and python.md in docs/reference anew;
         `pages()` gives their texts, for the test that they are up to date. `python_reference.py` makes the last.
Limits   What a page says of an entry is the entry's own help text. Whether an option has an effect is found by looking
         for `settings.<option>` in the source.
"""

from __future__ import annotations

import re
from html import escape
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from eddyline.model.expressions.functions import AGGREGATES, ALIASES, FUNCTIONS
from eddyline.model.expressions.signatures import DATE_PARTS, TRUNC_PARTS
from eddyline.settings import EXPERIMENT, OPTIONS, Settings

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "<!-- made by docs/reference_tables.py; change the table in the code, not this page -->\n"

#: The function with which each section of the page begins.
SECTIONS = {
    "+": "Arithmetic",
    "=": "Comparison",
    "and": "Logic and nulls",
    "like": "Patterns",
    "case": "Choice",
    "||": "Joining texts",
    "abs": "Numbers",
    "lower": "Texts",
    "struct_extract": "Nested values",
    "json_extract": "JSON texts",
    "date_trunc": "Times",
}

FUNCTIONS_HEAD = """\
# Functions and operators

Names are written in any case. Where nothing else is said, a NULL argument gives NULL, types and values are those of DuckDB,
and a value for which DuckDB would raise an error (an overflow, a text that is no number) gives NULL and is counted in
`null_results` of the [statistics](../command-line.md#figures-of-a-run).

```python
from eddyline import Session


def value(expression):
    \"\"\"What an expression gives for one row with x = 7, s = 'Eddy', ts = 2024-02-29 13:45:10.\"\"\"
    with Session() as session:
        session.execute("CREATE STREAM one (x BIGINT, s STRING, ts TIMESTAMP) WITH (time = 'ts')")
        query = session.query("q", f"SELECT {expression} AS value FROM one")
        session.push("one", [{"x": 7, "s": "Eddy", "ts": "2024-02-29 13:45:10"}])
        session.run()
        return query.table().column("value")[0].as_py()


assert value("x / 2") == 3.5 and value("x // 2") == 3 and value("-x % 4") == -3
assert value("upper(s) || '!'") == "EDDY!" and value("substr(s, 2, 2)") == "dd"
assert value("CASE WHEN x > 5 THEN 'many' ELSE 'few' END") == "many"
assert str(value("date_trunc('hour', ts)")) == "2024-02-29 13:00:00"
assert value("x BETWEEN 5 AND 9") is True and value("s LIKE 'E%'") is True
assert value("CAST(s AS BIGINT)") is None  # counted, not raised
```

`CAST(a AS type)` and `a::type` change types; see [types](types.md).
"""

SETTINGS_HEAD = """\
# Settings

`SET name = value` changes an option for what is created after it; `CREATE QUERY q WITH (name = value) AS …` for one query
only. All engines accept every option; `cores` stands before the first CREATE STREAM.
Words may be written with or without quotes; a value with spaces, parentheses or a
dash needs them. `EXPLAIN` shows the options that differ from their defaults.
"""

EXPERIMENTS_HEAD = """\
## For experiments

These choose between ways that give the same answers. The defaults are the fastest ones that were measured; the others are there to
compare. Without `experiment.` the names still work, and a job says so once.
"""


def _cell(text: str) -> str:
    return escape(text, quote=False).replace("|", "&#124;")


def _code(text: str) -> str:
    return f"<code>{_cell(text)}</code>"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def functions_page() -> str:
    parts = [NOTE + FUNCTIONS_HEAD]
    rows: dict[str, list[tuple[str, ...]]] = {}
    section = ""
    for name, function in FUNCTIONS.items():
        section = SECTIONS.get(name, section)
        rows.setdefault(section, []).append((_code(function.signature), _cell(function.help)))
    for title, entries in rows.items():
        parts.append(f"## {title}\n\n" + _table(("write", "gives"), entries))
    units = ", ".join(f"`{unit}`" for unit in TRUNC_PARTS)
    more = ", ".join(f"`{part}`" for part in DATE_PARTS if part not in TRUNC_PARTS)
    parts.append(f"Units of `date_trunc` and `date_diff`: {units}. `date_part` takes these and {more}.\n")
    listed = [(_code(signature), _cell(text)) for signature, text in AGGREGATES.values()]
    parts.append(
        "## Aggregates\n\nIn SELECT and HAVING; see [aggregates](../operators/aggregate.md).\n\n"
        + _table(("write", "gives"), listed)
    )
    names = [(_code(other), _code(name)) for other, name in ALIASES.items()]
    parts.append("## Other names\n\n" + _table(("name", "is"), names))
    return "\n".join(parts)


def settings_page() -> str:
    source = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "eddyline").rglob("*.py")))
    plain = Settings()
    rows: dict[str, list[tuple[str, ...]]] = {"": [], EXPERIMENT: [], "unread": []}
    for name, option in OPTIONS.items():
        default = f"`{'none' if getattr(plain, name) is None else getattr(plain, name)}`"
        read = re.search(rf"(settings|wishes)\.{name}\b", source) is not None
        prefix = EXPERIMENT if option.experiment is True else ""
        rows[prefix if read else "unread"].append(
            (f"`{prefix}{name}`", _code(option.values), default, _cell(option.help))
        )
        if isinstance(option.experiment, tuple):
            rows[EXPERIMENT].append(
                (f"`{EXPERIMENT}{name}`", _code(" | ".join(option.experiment)), default, _cell(option.help))
            )
    head = ("option", "values", "default", "what it is for")
    parts = [NOTE + SETTINGS_HEAD, _table(head, rows[""]), EXPERIMENTS_HEAD, _table(head, rows[EXPERIMENT])]
    if rows["unread"]:
        parts.append(
            "## Without effect in this version\n\nThese are accepted and checked, and nothing reads them yet.\n"
        )
        parts.append(_table(head, rows["unread"]))
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """The pages and their texts."""
    return {
        REFERENCE / "functions.md": functions_page(),
        REFERENCE / "settings.md": settings_page(),
        REFERENCE / "python.md": python_reference().page(NOTE.replace("table in the code", "docstring")),
    }


def python_reference() -> ModuleType:
    spec = spec_from_file_location("python_reference", Path(__file__).with_name("python_reference.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
        print(path.relative_to(ROOT))
