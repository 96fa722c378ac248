"""What a shell answers without a whole run: the first rows of a SELECT, and a SELECT without FROM.

Answer   `limited` takes LIMIT from a SELECT that has no ORDER BY, and `stop_after` ends a run when that many results
         have come. `constants` computes a SELECT without FROM. `table_alone` is the table of `SELECT * FROM table`.
State    None.
Limits   The first rows are the first results of a run: those of the oldest rows of the first files.
"""

from __future__ import annotations

import re

import pyarrow as pa

from eddyline.cli.interactive.texts import outer_text
from eddyline.errors import BindingProblem, SyntaxProblem, Unsupported
from eddyline.language import Job, parse_script
from eddyline.language.syntax import Body, Select, Star, Union
from eddyline.model.query import BoundQuery
from eddyline.model.schema import Table
from eddyline.session import Session

_LIMIT = re.compile(r"\bLIMIT\s+([1-9]\d{0,17})\s*\Z", re.I)
#: The event time of the one row over which constants are computed; no query names it.
_HIDDEN = "time_of_the_one_row"


def limited(text: str) -> tuple[str, int] | None:
    """A SELECT that ends with LIMIT and has neither ORDER BY nor EMIT: the text without LIMIT, and the number.

    >>> limited("SELECT * FROM s LIMIT 3"), limited("SELECT * FROM s ORDER BY a LIMIT 3")
    (('SELECT * FROM s ', 3), None)
    """
    outer = outer_text(text)
    found = _LIMIT.search(outer)
    if found is None or not is_select(outer) or re.search(r"\b(ORDER\s+BY|EMIT)\b", outer, re.I):
        return None
    return text[: found.start()], int(found[1])


def is_select(outer: str) -> bool:
    """Whether an outer text is that of a query."""
    return re.match(r"\s*(SELECT|WITH|EVENT)\b", outer, re.I) is not None


def is_continuous(body: Body) -> bool:
    """Whether a query says when its results leave: it goes on as long as rows come."""
    parts = body.parts if isinstance(body, Union) else (body,)
    return any(isinstance(part, Select) and part.emit is not None for part in parts)


def file_of(text: str) -> tuple[str, int, int] | None:
    """The file that FROM of a SELECT names in quotes, and where it stands in the text.

    >>> file_of("SELECT * FROM 'a.csv' LIMIT 3")
    ('a.csv', 14, 21)
    """
    outer = outer_text(text)
    found = re.search(r"\bFROM\s+('+)", outer, re.I) if is_select(outer) else None
    if found is None or text[found.start(1)] != "'":
        return None
    start, end = found.span(1)
    return text[start + 1 : end - 1].replace("''", "'"), start, end


def check_first_rows(query: BoundQuery) -> None:
    """Refuse LIMIT where later results take back earlier ones: the first of them would be passing values."""
    if query.is_changelog:
        raise Unsupported(
            "LIMIT without ORDER BY is not supported where results change",
            detail="the first results of groups and rankings hold until further rows come, and LIMIT reads no further",
            hint="leave LIMIT out, or write ORDER BY x DESC LIMIT 3",
        )


def stop_after(session: Session, name: str, rows: int) -> None:
    """Let the run of a session end when a query has given so many results."""
    came = 0

    def count(table: pa.Table) -> None:
        nonlocal came
        came += table.num_rows
        if came >= rows:
            session.ask_to_stop()

    session.on_results(name, count)


def table_alone(body: Body, job: Job) -> Table | None:
    """The table of which a SELECT wants all columns of all rows; None: the SELECT says something else."""
    if not isinstance(body, Select) or len(body.sources) != 1 or [i.value for i in body.items] != [Star()]:
        return None
    source, clauses = body.sources[0], (body.where, body.group_by, body.having, body.qualify, body.exists, body.emit)
    named = source.name.lower()
    if any(clauses) or body.distinct or body.named or source.window is not None or source.group_window is not None:
        return None
    return next((table for name, table in job.catalog.tables.items() if name.lower() == named), None)


def constants(text: str, job: Job) -> pa.Table | None:
    """The one row of a SELECT without FROM; None: the text is something else."""
    outer = outer_text(text)
    if re.match(r"\s*SELECT\b", outer, re.I) is None or re.search(r"\bFROM\b", outer, re.I):
        return None
    whole = f"{text}\nFROM one"
    try:
        (body,) = parse_script(whole)
    except SyntaxProblem:
        return None
    if not isinstance(body, Select) or any(isinstance(item.value, Star) for item in body.items):
        return None
    with Session(job.settings) as session:
        session.execute(f"CREATE STREAM one ({_HIDDEN} TIMESTAMP) WITH (time = '{_HIDDEN}')")
        for own in job.catalog.functions.values():
            session.job.catalog.add(own)
        try:
            query = session.query("select", whole)
        except BindingProblem as problem:
            if _HIDDEN not in str(problem):
                raise
            raise BindingProblem(
                problem.message,
                detail="this SELECT has no FROM: it computes with constants",
                hint="SELECT … FROM stream reads columns",
                position=problem.position,
            ) from None
        session.push("one", {_HIDDEN: ["1970-01-01 00:00:00"]})
        session.run(final=False)
        session.stop(final=False)
        found = query.take()
    return found.drop_columns([name for name in ("_op", "_ts") if name in found.column_names])
