"""From a bound query to the configuration of its join group and of the operators above it.

Answer   `lower` replaces aliases by positions, in the order of the sources. It sorts the conditions into filters of one
         reference, equalities between two, and residual conditions. It computes the signature: queries with equal
         signatures differ only in filters, windows and outputs, and share a join.
Limits   An equality whose side reads several references is a residual condition: no index helps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eddyline.model.datatypes import BOOLEAN
from eddyline.model.expressions.expression import (
    Call,
    ColumnRef,
    Expression,
    conjunction,
    has_aggregate,
    positions_of,
    reference_text,
    refs_of,
    rename_refs,
)
from eddyline.model.joining import Equality, JoinKeyColumn, Seat, is_exact
from eddyline.model.query import BoundQuery, OutputColumn
from eddyline.model.ranking import Followed, Ranking
from eddyline.model.window import Now, PartitionedRows, Window
from eddyline.settings import Settings


@dataclass(frozen=True)
class Lowered:
    """One query in the canonical form of its group; everything is indexed by position."""

    query: BoundQuery
    #: Per position the alias in the text of the query.
    aliases: tuple[str, ...]
    seats: tuple[Seat, ...]
    windows: tuple[Window | None, ...]
    filters: tuple[Expression | None, ...]
    equalities: tuple[Equality, ...]
    residuals: tuple[Expression, ...]
    outputs: tuple[OutputColumn, ...]
    group_by: tuple[Expression, ...]
    having: Expression | None
    signature: str
    ranking: Ranking | None = None
    followed: tuple[Followed, ...] = ()

    @property
    def moving(self) -> tuple[int, ...]:
        """Positions of streams."""
        return tuple(p for p, seat in enumerate(self.seats) if not seat.is_table)


#: The part of a join's signature for the settings of each policy: queries that share a join have equal settings. One
#: line per policy.
SWITCHES: tuple[Callable[[Settings], str], ...] = (
    lambda given: f" jit={given.jit}/{given.jit_control}",
    lambda given: f" route=lottery/{given.seed}" if given.route == "lottery" else "",
    lambda given: "" if given.heralds == "auto" else f" heralds={given.heralds}",
    lambda given: (
        "" if (given.punctuations, given.purge) == ("on", "auto") else f" purge={given.punctuations}/{given.purge}"
    ),
)


def lower(query: BoundQuery) -> Lowered:
    references = sorted(query.references, key=lambda reference: (reference.is_table, reference.source))
    names = {reference.alias: position for position, reference in enumerate(references)}
    where = [rename_refs(part, names) for part in query.where]
    filters: dict[int, list[Expression]] = {}
    equalities: list[Equality] = []
    residuals: list[Expression] = []
    for part in where:
        read = positions_of(part)
        if len(read) <= 1:
            # A condition that reads nothing holds for all rows or for none, of every reference.
            for position in read or range(len(references)):
                filters.setdefault(position, []).append(part)
        elif (equality := _as_equality(part)) is not None:
            equalities.append(equality)
        else:
            residuals.append(part)
    seats = tuple(
        Seat(reference.source, reference.is_table, _keys_of(position, equalities))
        for position, reference in enumerate(references)
    )
    # Groups that punctuations close, LAG and the like, and announced values depend on the rows of one query alone: such
    # a query shares no join.
    apart = query.by_promises or query.followed or query.settings.propagate != "off"
    share = "" if query.settings.share == "on" and not apart else f" alone={query.name}"
    # Queries that share a join have equal windows of these kinds.
    equal = [f"{p}:[{r.window}]" for p, r in enumerate(references) if isinstance(r.window, Now | PartitionedRows)]
    windows = f" windows={' '.join(equal)}" if equal else ""
    switches = "".join(switch(query.settings) for switch in SWITCHES)
    sources = ", ".join(seat.source for seat in seats)
    conditions = " & ".join(sorted(str(part) for part in where if len(refs_of(part)) > 1))
    ways = f"plan={_tree_text(query, names)} probe={query.settings.probe}{switches}{windows}{share}"

    def lowered(e: Expression) -> Expression:
        return rename_refs(e, names)

    return Lowered(
        query,
        aliases=tuple(reference.alias for reference in references),
        seats=seats,
        windows=tuple(reference.window for reference in references),
        filters=tuple(conjunction(tuple(filters[p])) if p in filters else None for p in range(len(seats))),
        equalities=tuple(equalities),
        residuals=tuple(residuals),
        outputs=tuple(OutputColumn(o.name, lowered(o.expression)) for o in query.outputs),
        group_by=tuple(map(lowered, query.group_by)),
        having=None if query.having is None else lowered(query.having),
        signature=f"{sources}; {conditions}; {ways}",
        ranking=None if query.ranking is None else query.ranking.mapped(lowered),
        followed=tuple(followed.mapped(lowered) for followed in query.followed),
    )


def _tree_text(query: BoundQuery, names: dict[str, int]) -> str:
    text = query.settings.plan
    if not text.startswith("("):
        return text
    parts = text.replace("(", " ( ").replace(")", " ) ").split()
    positions = {alias.lower(): reference_text(position) for alias, position in names.items()}
    return " ".join(positions.get(part.lower(), part) for part in parts)


def _as_equality(part: Expression) -> Equality | None:
    if not (isinstance(part, Call) and part.function == "="):
        return None
    left, right = part.args
    if has_aggregate(part):
        return None
    left_refs, right_refs = positions_of(left), positions_of(right)
    if len(left_refs) != 1 or len(right_refs) != 1 or left_refs == right_refs or left.type != right.type:
        return None
    (a,), (b,) = left_refs, right_refs
    texts = None
    if isinstance(left, ColumnRef) and isinstance(right, ColumnRef) and left.type.name == "STRING":
        texts = (left.column, right.column)
    keys = JoinKeyColumn.of(left).name, JoinKeyColumn.of(right).name
    return Equality(a, keys[0], b, keys[1], is_exact(left.type), Call("=", (left, right), BOOLEAN), texts)


def _keys_of(position: int, equalities: list[Equality]) -> tuple[JoinKeyColumn, ...]:
    """The keys of the reference at a position, each once."""
    keys: dict[str, JoinKeyColumn] = {}
    for equality in equalities:
        assert isinstance(equality.condition, Call)
        for side, at in zip(equality.condition.args, (equality.left, equality.right), strict=True):
            if at == position:
                key = JoinKeyColumn.of(side)
                keys[key.name] = key
    return tuple(keys.values())
