"""EXPLAIN of templates, requests and streams of requests.

Answer   One `name: text` line per fact, as EXPLAIN of a query has them.
Limits   Counts of rows and requests are shown only for a registered template.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eddyline.model.expressions.expression import conjunction
from eddyline.model.query import BoundQuery
from eddyline.model.template import BoundRequests, BoundTemplate, Request, RequestStream, Template
from eddyline.model.window import span_text
from eddyline.plan.prepare import prepare_tree
from eddyline.plan.tree.statistics import Sources

if TYPE_CHECKING:
    from eddyline.operators.template.registered import RegisteredTemplate


def template_text(template: Template, registered: RegisteredTemplate | None = None) -> str:
    lines = [
        f"template: {template.name}",
        f"stream: {template.source} [{template.window}]",
        *([f"where: {conjunction(template.query.where)}"] if template.query.where else []),
        f"grouping columns: {', '.join(o.name for o in template.keys)}",
        f"aggregates: {', '.join(f'{o.name} = {o.expression}' for o in template.aggregates)}",
        f"history: {span_text(template.history) if template.history else 'none'}",
        f"index: {template.index}, {template.bits} bits",
    ]
    if registered is not None:
        lines += _measured(template, registered)
    return "\n".join(lines)


def _measured(template: Template, registered: RegisteredTemplate) -> list[str]:
    lines = [f"rows kept: {registered.stream.store.live}"]
    index, shared = registered.index, registered.address_bits
    if index is not None and shared is not None:
        shares = ", ".join(f"{key.name} {bits}" for key, bits in zip(template.keys, shared, strict=True))
        lines.append(f"address bits: {shares}; {len(index.blocks)} blocks, {len(index.stale())} to rebuild")
    names = [key.name for key in template.keys]
    for pattern, count in sorted(registered.adjustment.counts.items()):
        fixed = ", ".join(name for column, name in enumerate(names) if pattern >> column & 1) or "nothing"
        lines.append(f"asked: {count:.0f} times with {fixed} fixed")
    return lines


def request_text(template: Template, request: Request) -> str:
    fixed = {condition.key for condition in request.conditions if condition.kind == "in"}
    ranged = {condition.key for condition in request.conditions if condition.kind in ("<", "<=", ">", ">=")} - fixed
    columns = [(template.keys if is_key else template.aggregates)[number].name for is_key, number in request.columns]
    names = [[template.keys[key].name for key in sorted(keys)] for keys in (fixed, ranged)]
    helped = _helps(template, *({name.lower() for name in some} for some in names))
    return "\n".join(
        [
            f"request: {', '.join(columns)} from {template.name} [{request.window}]",
            f"fixes: {', '.join(names[0]) or 'nothing'}",
            *([f"ranges: {', '.join(names[1])}"] if ranged else []),
            f"groups by: {', '.join(template.keys[key].name for key in request.group_by) or '()'}",
            f"access path: {'index, or scan where that is cheaper' if helped else 'scan'}",
        ]
    )


def _helps(template: Template, fixed: set[str], ranged: set[str]) -> bool:
    """Whether the index of a template serves requests that fix these columns and keep those within ranges."""
    index = template.index
    if index == "scan" or (template.bits == 0 and index in ("auto", "imp")):
        return False
    if index.startswith("hash("):
        return {name.strip().lower() for name in index[5:-1].split(",")} <= fixed
    if index.startswith("imp("):
        bits = [int(found) for found in re.findall(r"[0-9]+", index)]
        return any(
            count and key.name.lower() in fixed | ranged for key, count in zip(template.keys, bits, strict=False)
        )
    return bool(fixed | ranged)


def requests_text(requests: RequestStream) -> str:
    lines = [
        f"requests: {requests.name} for template {requests.template.name}",
        f"parameters: {', '.join(name for name, _ in requests.parameters) or 'none'}",
        f"carried along: {', '.join(requests.carried) or 'nothing'}",
    ]
    for role in ("window", "group_by", "aggregates"):
        if getattr(requests, role) is not None:
            lines.append(f"{role}: column {getattr(requests, role)}")
    return "\n".join(lines)


# -- called by `plan/prepare.py`


def check(query: BoundQuery, sources: Sources | None) -> None:
    prepare_tree(query, sources)


def notices(query: BoundQuery, sources: Sources | None) -> list[str]:
    """None: requests are removed when they have been answered, and a template keeps its window."""
    return []


def explanation(query: BoundQuery, sources: Sources | None) -> str:
    if isinstance(query, BoundRequests):
        assert query.request_stream is not None
        return requests_text(query.request_stream)
    assert isinstance(query, BoundTemplate) and query.template is not None
    return template_text(query.template)
