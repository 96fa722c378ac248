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
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    conjunction,
    positions_of,
    reference_text,
    refs_of,
    rename_refs,
    walk,
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
    #: Position to the alias in the query's own text.
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


#: The part of a join's signature that each policy gives: queries that share a join have equal settings of policies.
#: One line each.
SWITCHES: tuple[Callable[[Settings], str], ...] = (
    lambda wishes: f" jit={wishes.jit}/{wishes.jit_control}",
    lambda wishes: f" route=lottery/{wishes.seed}" if wishes.route == "lottery" else "",
    lambda wishes: "" if wishes.heralds == "auto" else f" heralds={wishes.heralds}",
    lambda wishes: (
        "" if (wishes.punctuations, wishes.purge) == ("on", "auto") else f" purge={wishes.punctuations}/{wishes.purge}"
    ),
)


def lower(query: BoundQuery) -> Lowered:
    numbered = sorted(enumerate(query.references), key=lambda item: (item[1].is_table, item[1].source, item[0]))
    references = tuple(reference for _, reference in numbered)
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
    # Until when a group of promised columns lives depends on the rows of its own query alone.
    # LAG and the like read rows in one order, whatever other queries of the join need.
    apart = query.by_promises or query.followed or query.settings.propagate != "off"
    share = "" if query.settings.share == "on" and not apart else f" alone={query.name}"
    wishes = query.settings
    # All members of a group judge such windows alike.
    judged = [f"{p}:[{r.window}]" for p, r in enumerate(references) if isinstance(r.window, Now | PartitionedRows)]
    windows = f" windows={' '.join(judged)}" if judged else ""
    switches = "".join(switch(wishes) for switch in SWITCHES)
    signature = "; ".join(
        [", ".join(seat.source for seat in seats), " & ".join(sorted(str(p) for p in where if len(refs_of(p)) > 1))]
        + [f"plan={_tree_text(query, names)} probe={wishes.probe}{switches}{windows}{share}"]
    )
    return Lowered(
        query,
        tuple(reference.alias for reference in references),
        seats,
        tuple(reference.window for reference in references),
        tuple(conjunction(tuple(filters[p])) if p in filters else None for p in range(len(seats))),
        tuple(equalities),
        tuple(residuals),
        tuple(OutputColumn(o.name, rename_refs(o.expression, names)) for o in query.outputs),
        tuple(rename_refs(e, names) for e in query.group_by),
        None if query.having is None else rename_refs(query.having, names),
        signature,
        None if query.ranking is None else query.ranking.mapped(lambda e: rename_refs(e, names)),
        tuple(f.mapped(lambda e: rename_refs(e, names)) for f in query.followed),
    )


def _tree_text(query: BoundQuery, names: dict[str, int]) -> str:
    text = query.settings.plan
    if not text.startswith("("):
        return text
    words = text.replace("(", " ( ").replace(")", " ) ").split()
    folded = {alias.lower(): reference_text(position) for alias, position in names.items()}
    return " ".join(folded.get(word.lower(), word) for word in words)


def _as_equality(part: Expression) -> Equality | None:
    if not (isinstance(part, Call) and part.function == "="):
        return None
    left, right = part.args
    if any(isinstance(x, Aggregate) for x in walk(part)):
        return None
    left_refs, right_refs = positions_of(left), positions_of(right)
    if len(left_refs) != 1 or len(right_refs) != 1 or left_refs == right_refs or left.type != right.type:
        return None
    (a,), (b,) = left_refs, right_refs
    texts = None
    if isinstance(left, ColumnRef) and isinstance(right, ColumnRef) and left.type.name == "STRING":
        texts = (left.column, right.column)
    return Equality(
        a,
        JoinKeyColumn.of(left).name,
        b,
        JoinKeyColumn.of(right).name,
        is_exact(left.type),
        Call("=", (left, right), BOOLEAN),
        texts,
    )


def _keys_of(position: int, equalities: list[Equality]) -> tuple[JoinKeyColumn, ...]:
    keys: dict[str, JoinKeyColumn] = {}
    for equality in equalities:
        assert isinstance(equality.condition, Call)
        left, right = equality.condition.args
        if equality.left == position:
            keys[equality.left_key] = JoinKeyColumn.of(left)
        if equality.right == position:
            keys[equality.right_key] = JoinKeyColumn.of(right)
    return tuple(keys.values())
