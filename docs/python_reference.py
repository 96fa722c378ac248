"""The reference of Python: signatures and docstrings of what `eddyline` has for programs.

Answer   `page` gives the text of docs/reference/python.md: a section per public class, with its attributes and methods in the
         order of the source. `python docs/reference_tables.py` writes it.
Limits   Docstrings are written as the source has them: a text, then `Args:`, `Returns:`, `Raises:`, and examples with `>>>`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import eddyline

HEAD = """\
# Python

All names below are imported from `eddyline`. Everything else in the package may change with any version. Pages with examples: the
[tutorial](../tutorial.md), [results in Python](../formats.md#results-in-python), [pushed rows](../formats.md#pushed-rows),
[PySpark](../spark.md). `eddyline.__version__` is the version of the package.
"""
#: The order of the page.
CLASSES = ("Session", "Query", "Settings", "EddylineError", "UserError", "EddylineWarning")
#: Methods with names of Python's own, and what calls them.
SPECIAL = {
    "__iter__": "for row in query",
    "__aiter__": "async for batch in query",
    "__len__": "len(query)",
    "__arrow_c_stream__": 'duckdb.sql("FROM query"), polars.from_arrow(query), …',
}
_PART = re.compile(r"^(Args|Returns|Raises):$", re.MULTILINE)
_ITEM = re.compile(r"^ {4}(\w+): (.*(?:\n(?: {8}.*)?)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*\n(?:.+\n?)*", re.MULTILINE)


def page(note: str) -> str:
    parts = [note + HEAD]
    for name in CLASSES:
        parts += [f"## {name}\n", *_class(name, getattr(eddyline, name))]
    return "\n".join(parts)


def members(found: type) -> Iterator[tuple[str, Any]]:
    """The public attributes and methods of a class, in the order of the source, then those of its bases that have no
    section of their own."""
    for part in found.__mro__:
        if part is not found and (part.__name__ in CLASSES or not part.__module__.startswith("eddyline")):
            continue
        for name, member in vars(part).items():
            is_public = name in SPECIAL or not name.startswith("_")
            if is_public and (isinstance(member, property) or inspect.isfunction(member)):
                yield name, member


def _class(name: str, found: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in found.__bases__ if base.__name__ in CLASSES)
    if bases:
        yield f"A kind of `{bases}`.\n"
    if name == "Settings":
        # A dataclass: without a docstring its own would be a list of all fields.
        yield "The options of a session, frozen. Each option is an attribute; [settings](settings.md) lists them.\n"
    else:
        yield documented(found)
    constructor = vars(found).get("__init__")
    if name in ("Session", "EddylineError") and constructor is not None:
        yield signature(name, constructor)
        yield documented(constructor)
    for member, what in members(found):
        yield f"### {name}.{member}\n"
        if isinstance(what, property):
            assert what.fget is not None
            yield f"```text\n{member}: {what.fget.__annotations__.get('return', 'object')}\n```\n"
            yield documented(what)
        else:
            yield (
                signature(SPECIAL.get(member, member), what)
                if member not in SPECIAL
                else f"```text\n{SPECIAL[member]}\n```\n"
            )
            yield documented(what)


def signature(name: str, function: Callable[..., Any]) -> str:
    """A call with types and defaults, one parameter per line where the line would be long."""
    said, words = inspect.signature(function), []
    keyword_only = False
    for parameter in list(said.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            words.append("*")
            keyword_only = True
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        words.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    result = "" if function.__name__ == "__init__" else f" -> {said.return_annotation}"
    line = f"{name}({', '.join(words)}){result}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){result}"
    return f"```text\n{line}\n```\n"


def documented(what: object) -> str:
    """A docstring as Markdown."""
    text = inspect.cleandoc(what.__doc__ or "") + "\n"
    examples = "".join(_EXAMPLE.findall(text)).rstrip()
    text = _EXAMPLE.sub("", text)
    first, *rest = _PART.split(text)
    lines = [first.strip(), ""] if first.strip() else []
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if items := _ITEM.findall(body):
            lines += [f"{title}:", ""]
            lines += [f"- `{name}`: {' '.join(said.split())}" for name, said in items]
        else:
            lines += [f"{title}: {' '.join(body.split())}"]
        lines.append("")
    if examples:
        lines += ["```pycon", examples, "```", ""]
    return "\n".join(lines)
