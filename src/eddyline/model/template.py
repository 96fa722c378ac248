"""Templates and requests: a registered group-by, and the requests that it answers.

Answer   `Template` is one group-by over one stream and window, with its grouping columns and aggregates under their
         output names. `Request` has conditions on grouping columns, the columns to group by, the aggregates, a shorter
         window, an instant. `RequestStream` has the roles of the columns of a stream of requests.
Limits   Frozen values. docs/semantics.md defines the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from eddyline.model.datatypes import TIMESTAMP, DataType
from eddyline.model.query import BoundQuery, OutputColumn, Reference
from eddyline.model.schema import Stream
from eddyline.model.window import UNBOUNDED, Range, Rows

if TYPE_CHECKING:
    import pyarrow as pa

#: The most address bits of a template's index.
MOST_BITS = 24
#: The most schemas of answers that a template keeps.
MOST_SCHEMAS = 256


def window_size(window: Range | Rows) -> int:
    """Microseconds, or rows."""
    return window.micros if isinstance(window, Range) else window.count


@dataclass(frozen=True)
class Template:
    """A registered group-by. `query` is its SELECT, bound."""

    name: str
    query: BoundQuery
    bits: int = 16
    #: auto, scan, imp, `hash(a, b)` or `imp(6, 5, 5)`.
    index: str = "auto"
    #: How far back, in microseconds beyond the window, requests AS OF an instant reach.
    history: int = 0

    @property
    def as_query(self) -> BoundTemplate:
        """The query that pipelines register for the template."""
        given = {field.name: getattr(self.query, field.name) for field in fields(self.query)}
        return BoundTemplate(**given, template=self)

    @property
    def source(self) -> str:
        return self.query.references[0].source

    @property
    def window(self) -> Range | Rows:
        window = self.query.references[0].window
        assert isinstance(window, Range | Rows)
        return window

    @cached_property
    def keys(self) -> tuple[OutputColumn, ...]:
        """The grouping columns, in the order of SELECT."""
        return tuple(o for o in self.query.outputs if o.expression in self.query.group_by)

    @cached_property
    def schemas(self) -> dict[tuple[tuple[bool, int], ...], pa.Schema]:
        """The schemas of answers by the output columns of requests, up to `MOST_SCHEMAS`."""
        return {}

    @cached_property
    def aggregates(self) -> tuple[OutputColumn, ...]:
        return tuple(o for o in self.query.outputs if o.expression not in self.query.group_by)

    def key(self, name: str) -> int | None:
        """The number of a grouping column; the case of letters does not matter."""
        return next((n for n, o in enumerate(self.keys) if o.name.lower() == name.lower()), None)

    def aggregate(self, name: str) -> int | None:
        return next((n for n, o in enumerate(self.aggregates) if o.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class RequestCondition:
    """A conjunct on one grouping column. `kind`: `in` (values), `null`, or a comparison `< <= > >= <>` (one value).

    Values are in the engine's own form, of the column's type.
    """

    key: int
    kind: str
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class Request:
    template: str
    #: Output columns in order: (is it a grouping column, its number).
    columns: tuple[tuple[bool, int], ...]
    #: Numbers of the grouping columns that rows are grouped by.
    group_by: tuple[int, ...]
    conditions: tuple[RequestCondition, ...]
    window: Range | Rows
    #: The instant of the answer; None: the last one before the frontier.
    as_of: int | None = None
    text: str = field(default="", compare=False)

    def schema(self, template: Template) -> pa.Schema:
        found = template.schemas.get(self.columns)
        if found is None:
            import pyarrow as pa

            outputs = [(template.keys if is_key else template.aggregates)[number] for is_key, number in self.columns]
            found = pa.schema([(o.name, o.type.arrow) for o in outputs] + [("_ts", TIMESTAMP.arrow)])
            if len(template.schemas) < MOST_SCHEMAS:
                template.schemas[self.columns] = found
        return found


@dataclass(frozen=True)
class RequestStream:
    """A stream whose rows are requests."""

    stream: Stream
    template: Template
    #: Column of the stream -> number of the grouping column that it fixes; NULL leaves it open.
    parameters: tuple[tuple[str, int], ...]
    #: Columns with the roles of the window (microseconds or rows), of the grouping columns and of the aggregates; None:
    #: no such column.
    window: str | None
    group_by: str | None
    aggregates: str | None
    #: Columns that results carry along.
    carried: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.stream.name

    @property
    def as_query(self) -> BoundRequests:
        """The query that pipelines register for the stream of requests: it reads the requests and the rows of the
        template."""
        rows = self.template.query.references[0]
        references = (Reference("requests", self.stream.name, UNBOUNDED), replace(rows, alias="rows"))
        outputs = tuple(OutputColumn(o.name, o.expression) for o in self.template.query.outputs)
        # A checkpoint compares the texts of queries: columns with other roles make another query.
        roles = {"window": self.window, "group_by": self.group_by, "aggregates": self.aggregates}
        given = ", ".join(f"{role} = '{column}'" for role, column in roles.items() if column is not None)
        text = f"REQUESTS FOR {self.template.name}{f' WITH ({given})' if given else ''}: {self.template.query.text}"
        return BoundRequests(
            self.name, references, (), outputs, settings=self.template.query.settings, text=text, request_stream=self
        )

    @property
    def schema(self) -> pa.Schema:
        """Of the results."""
        import pyarrow as pa

        known = {c.name: c.type for c in self.stream.schema.columns}
        columns: list[tuple[str, DataType]] = [(name, known[name]) for name in self.carried]
        columns += [(o.name, o.type) for o in (*self.template.keys, *self.template.aggregates)]
        return pa.schema([(name, kind.arrow) for name, kind in columns] + [("_ts", TIMESTAMP.arrow)])


@dataclass(frozen=True)
class BoundTemplate(BoundQuery):
    """A template in the form that pipelines register: a query without results."""

    template: Template | None = None


@dataclass(frozen=True)
class BoundRequests(BoundQuery):
    """A stream of requests in the form that pipelines register: a query whose results are the answers."""

    request_stream: RequestStream | None = None
