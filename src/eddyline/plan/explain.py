"""The text of a plan, for goldens, the command line and `--stats`.

Answer   `explain` writes how a query is answered: its tree, its references with windows and filters, its joins, what it
         selects.
Limits   The caller adds costs and run-time figures as further lines of the same form `name: text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from eddyline.model.expressions.expression import Call, Expression, conjuncts, rename_refs, with_columns
from eddyline.model.schema import DERIVED_TIME, RESULT_TIME
from eddyline.plan.lower import Lowered
from eddyline.plan.tree.budget import bytes_text, cores_text
from eddyline.plan.tree.cost import Price
from eddyline.plan.tree.jtree.tree import JTree
from eddyline.plan.tree.tree_choice import TreeChoice
from eddyline.settings import Settings


def explain(lowered: Lowered, tree: JTree, more: Mapping[str, str] | None = None) -> str:
    """The plan of one query, over its aliases.

    The line `tree:` shows the join tree; a group of three or more is one mjoin node.
    """
    query = lowered.query
    own = dict(enumerate(lowered.aliases))
    lines = [f"query: {query.name}", f"tree: {tree}"]
    for alias, seat, window, where in zip(
        lowered.aliases, lowered.seats, lowered.windows, lowered.filters, strict=True
    ):
        kind = "table" if window is None else f"[{window}]"
        lines.append(f"  {alias}: {seat.source} {kind}" + ("" if where is None else f" where {_all(where, own)}"))
    lines += _listed("join", (_text(e.condition, own) for e in lowered.equalities))
    lines += _listed("condition", (_text(e, own) for e in lowered.residuals))
    lines += _listed("select", (f"{_text(o.expression, own)} AS {o.name}" for o in lowered.outputs))
    lines += _listed("group by", (_text(e, own) for e in lowered.group_by))
    if lowered.having is not None:
        lines.append(f"having: {_text(lowered.having, own)}")
    if lowered.ranking is not None:
        lines.append(f"qualify: {lowered.ranking.mapped(lambda e: rename_refs(e, own))}")
    for at, followed in enumerate(lowered.followed):
        by = "".join(f" partition by {_text(e, own)}" for e in followed.partition)
        lines.append(f"  _over{at}: {followed.function}({_text(followed.value, own)}, {followed.distance}){by}")
    if query.is_aggregate or lowered.ranking is not None:
        lines.append(f"emit: {query.emit}")
    lines.append(f"probe: {query.settings.probe}")
    lines += changed_line(query.settings, "plan", "probe")
    lines += [f"{name}: {text}" for name, text in (more or {}).items()]
    return "\n".join(lines)


def changed_line(settings: Settings, *shown: str) -> list[str]:
    """The line of the options that differ from their defaults, without those that other lines show; none without any."""
    return _listed("set", (f"{name} = {value}" for name, value in settings.changed().items() if name not in shown))


def cost_lines(lowered: Lowered, choice: TreeChoice, running: Price | None = None) -> dict[str, str]:
    """The price of a plan, the part of the budgets that other queries leave, and the next best tree.

    `running` is the price of the running tree if that is not the choice.
    """
    streams = {seat.source for seat in lowered.seats if not seat.is_table}
    limited = choice.left.cpu is not None or choice.left.memory is not None
    # Prices of assumed rates alone are not shown.
    if len(lowered.seats) < 2 or (streams <= set(choice.assumed) and not limited):
        return {}
    price = running or choice.price
    memory = bytes_text(price.memory) + _of(choice.left.memory, bytes_text)
    lines = {
        "cpu": cores_text(price.cpu) + _of(choice.left.cpu, cores_text),
        "memory": memory + (", payload on disk" if choice.on_disk else ""),
    }
    if choice.bound is not None:
        lines["over budget"] = choice.bound
    if (other := choice.found.runner_up) is not None:
        lines["runner-up"] = f"{other.tree} with {cores_text(other.cpu)}, {bytes_text(other.memory)}"
    if choice.assumed:
        lines["assumed"] = "rate of " + ", ".join(choice.assumed)
    return lines


def _of(budget: float | None, text: Callable[[float], str]) -> str:
    return "" if budget is None else f" of {text(budget)}"


def _text(expression: Expression, own: dict[int, str]) -> str:
    return str(_as_called(rename_refs(expression, own)))


def _as_called(e: Expression) -> Expression:
    """The expression with the name that queries have for the event time of derived streams."""
    return with_columns(e, lambda c: replace(c, column=RESULT_TIME) if c.column == DERIVED_TIME else c)


def _all(where: Expression, own: dict[int, str]) -> str:
    """A filter as a user would write it: an OR in a chain of ANDs has parentheses."""
    parts = conjuncts(where)
    ors = [len(parts) > 1 and isinstance(part, Call) and part.function == "or" for part in parts]
    return " AND ".join(f"({_text(p, own)})" if is_or else _text(p, own) for p, is_or in zip(parts, ors, strict=True))


def _listed(name: str, items: Iterable[str]) -> list[str]:
    texts = list(items)
    return [f"{name}: {', '.join(texts)}"] if texts else []
