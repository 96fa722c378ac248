"""EXPLAIN ANALYZE: what the operators of a join did in this run."""

from __future__ import annotations

from eddyline.operators.join.group import JoinGroup


def join_lines(group: JoinGroup, aliases: tuple[str, ...]) -> list[str]:
    """One line per node, edge and store of a group, in the aliases of one of its queries."""
    lines = []
    own = {f"r{position}": alias for position, alias in enumerate(aliases)}

    def shown(name: str) -> str:
        return "⋈".join(own.get(part, part) for part in name.split(":", 1)[-1].split("⋈"))

    for name, counters in group.counters.items():
        inputs = shown(name)
        lines.append(
            f"join {inputs}: {counters.rows_in:,} rows in, {counters.rows_out:,} out, {counters.probes:,} probes, "
            f"{counters.visited:,} rows visited, {counters.partials:,} partial results, {counters.seconds:.3f} s"
        )
        if counters.zone_pairs:
            lines.append(
                f"zones {inputs}: {counters.zone_pairs:,} pairs, {counters.zones_skipped:,} skipped, {counters.zones_passed:,} passed"
            )
    for name, edge in group.edges().items():
        node, *admission = name.split(" ")
        asked = ", ".join(shown(one) for one in edge["listens_to"])
        lines.append(
            f"{admission[0] if admission else 'demand'} {shown(node)}: {edge['state']}{f' to {asked}' if asked else ''}, "
            f"{edge['suspensions']:,} rows suspended (at most {edge['suspended_peak']:,} at a time), {edge['marks']:,} pairs refused, "
            f"{edge['resumptions']:,} combinations resumed, about {edge['partials_avoided']['estimate']:,} avoided, "
            f"{edge['checks']:,} questions"
        )
    for kept in group.intermediates():
        lines.append(f"store {kept.store.name}: at most {kept.peak:,} rows")
    return lines
