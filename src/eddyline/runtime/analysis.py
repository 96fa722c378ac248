"""EXPLAIN ANALYZE: the plan of a query, and what its operators did in this run."""

from __future__ import annotations

from eddyline.operators.join.group import JoinGroup
from eddyline.runtime.report import plan_text
from eddyline.runtime.standing import AnyQuery


def analysis(query: AnyQuery) -> str:
    lines = [plan_text(query)]
    if isinstance(query.group, JoinGroup):
        own = {f"r{position}": alias for position, alias in enumerate(query.lowered.aliases)}

        def shown(name: str) -> str:
            return "⋈".join(own.get(part, part) for part in name.split(":", 1)[-1].split("⋈"))

        for name, counters in query.group.counters.items():
            inputs = shown(name)
            lines.append(
                f"join {inputs}: {counters.rows_in:,} rows in, {counters.rows_out:,} out, {counters.probes:,} probes, "
                f"{counters.visited:,} rows visited, {counters.partials:,} partial results, {counters.seconds:.3f} s"
            )
        for name, edge in query.group.edges().items():
            node, *admission = name.split(" ")
            asked = ", ".join(shown(one) for one in edge["listens_to"])
            lines.append(
                f"{admission[0] if admission else 'demand'} {shown(node)}: {edge['state']}{f' to {asked}' if asked else ''}, "
                f"{edge['suspensions']:,} rows suspended (at most {edge['suspended_peak']:,} at a time), {edge['marks']:,} pairs refused, "
                f"{edge['resumptions']:,} combinations resumed, about {edge['partials_avoided']['estimate']:,} avoided, "
                f"{edge['checks']:,} questions"
            )
        for kept in query.group.intermediates():
            lines.append(f"store {kept.store.name}: at most {kept.peak:,} rows")
    lines.append(f"results: {query.results:,} of {query.rows_in:,} combinations, {query.seconds:.3f} s")
    return "\n".join(lines)
