"""The one text form of a plan: for goldens, the command line and `--stats`.

Answer   `explain` says how a query is answered: its tree, its references with windows and filters, its joins, what it selects.
Limits   Costs and run-time figures are added by whoever has them, as further lines of the same form `name: text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eddyline.model.expression import Call, Expression, conjuncts, rename_refs
from eddyline.plan.jtree.tree import JTree
from eddyline.plan.lower import Lowered


def explain(lowered: Lowered, tree: JTree, more: Mapping[str, str] | None = None) -> str:
    """The plan of one query, in its own aliases.

    The line `tree:` shows the join tree; a group of three or more is one mjoin node.
    """
    query = lowered.query
    own = {f"r{position}": alias for position, alias in enumerate(lowered.aliases)}
    lines = [f"query: {query.name}", f"tree: {tree}"]
    for position, seat in enumerate(lowered.seats):
        window = lowered.windows[position]
        kind = "table" if window is None else f"[{window}]"
        where = lowered.filters[position]
        lines.append(f"  {lowered.aliases[position]}: {seat.source} {kind}" + ("" if where is None else f" where {_all(where, own)}"))
    lines += _listed("join", (_text(e.condition, own) for e in lowered.equalities))
    lines += _listed("condition", (_text(e, own) for e in lowered.residuals))
    lines += _listed("select", (f"{_text(o.expression, own)} AS {o.name}" for o in lowered.outputs))
    lines += _listed("group by", (_text(e, own) for e in lowered.group_by))
    if lowered.having is not None:
        lines.append(f"having: {_text(lowered.having, own)}")
    if query.is_aggregate:
        lines.append(f"emit: {query.emit}")
    lines.append(f"probe: {query.settings.probe}")
    changed = {name: value for name, value in query.settings.changed().items() if name not in ("plan", "probe")}
    if changed:
        lines.append("set: " + ", ".join(f"{name} = {value}" for name, value in changed.items()))
    lines += [f"{name}: {text}" for name, text in (more or {}).items()]
    return "\n".join(lines)


def _text(expression: Expression, own: dict[str, str]) -> str:
    return str(rename_refs(expression, own))


def _all(where: Expression, own: dict[str, str]) -> str:
    """A filter as one would write it: a chain of ANDs needs no parentheses, an OR in it does."""
    parts = conjuncts(where)
    alone = len(parts) == 1
    return " AND ".join(f"({_text(p, own)})" if not alone and isinstance(p, Call) and p.function == "or" else _text(p, own) for p in parts)


def _listed(name: str, items: Iterable[str]) -> list[str]:
    texts = list(items)
    return [f"{name}: {', '.join(texts)}"] if texts else []
