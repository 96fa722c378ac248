"""EXPLAIN ANALYZE: what the operators of a join did in this run."""

from __future__ import annotations

from eddyline.operators.join.group import JoinGroup


def join_lines(group: JoinGroup, aliases: tuple[str, ...]) -> list[str]:
    """One line per node, edge and store of a group, in the aliases of one of its queries."""

    def shown(references: tuple[int, ...]) -> str:
        return "⋈".join(aliases[reference] for reference in references)

    lines = []
    for references, counters in group.counters.items():
        lines.append(
            f"join {shown(references)}: {counters.rows_in:,} rows in, {counters.rows_out:,} out, {counters.probes:,} probes, "
            f"{counters.visited:,} rows visited, {counters.partials:,} partial results, {counters.seconds:.3f} s"
        )
        if counters.zone_pairs:
            lines.append(
                f"zones {shown(references)}: {counters.zone_pairs:,} pairs, {counters.zones_skipped:,} skipped, "
                f"{counters.zones_passed:,} passed"
            )
    for edge in group.figures().edges:
        asked = ", ".join(shown(one) for one in edge.listens_to)
        seen = edge.figures
        lines.append(
            f"{edge.kind} {shown(edge.references)}: {seen['state']}{f' to {asked}' if asked else ''}, "
            f"{seen['suspensions']:,} rows suspended (at most {seen['suspended_peak']:,} at a time), {seen['marks']:,} pairs refused, "
            f"{seen['resumptions']:,} combinations resumed, about {seen['partials_avoided']['estimate']:,} avoided, "
            f"{seen['checks']:,} questions"
        )
    for kept in group.intermediates:
        lines.append(f"store {kept.store.name}: at most {kept.peak:,} rows")
    return lines
