"""The goals of just-in-time joins, held against what was measured.

Answer   `claims` gives, for each goal whose setting has been measured, what was asked, what was found and whether that
         meets it.
Limits   Ratios are between runs of one file. What has not been measured is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Claim = dict[str, Any]


def claims(kept: Mapping[str, Any]) -> list[Claim]:
    goals = {title: goal["measures"] for title, goal in kept.get("goals", {}).items()}
    found: list[Claim] = []
    if (m := goals.get("bushy default")) is not None:
        found += _less(m, "bushy default, loop probing", "auto auto", most=0.15, stored=0.15, faster=5.0)
        found += _less(m, "bushy default, loop probing", "exact chain", most=0.15, stored=0.15, faster=5.0)
    if (m := goals.get("bushy, rate x10, hash")) is not None:
        found.append(
            _claim(
                "bushy, rate x10, hash probing: REF's CPU seconds",
                "at least 5",
                m["REF"]["cpu_s"],
                m["REF"]["cpu_s"] >= 5.0,
            )
        )
        found += _less(m, "bushy, rate x10, hash probing", "auto auto", faster=2.0)
        found += _less(m, "bushy, rate x10, hash probing", "exact chain", faster=2.0)
    if (m := goals.get("left-deep default")) is not None:
        found += _less(m, "left-deep default, loop probing", "auto auto", most=0.05, faster=5.0)
    if (m := goals.get("bushy N=4, dmax 50, hash")) is not None:
        title = "bushy N=4, dmax 50"
        found += _less(m, title, "exact one-sided", most=0.55)
        for form in ("exact probes", "exact chain"):
            found += _less(m, title, form, most=0.75 * m["exact one-sided"]["partials"] / m["REF"]["partials"])
    for title in (
        "bushy default, hash",
        "left-deep default, hash",
        "bushy N=4, dmax 50, hash",
        "every row finds partners, hash",
    ):
        if (m := goals.get(title)) is not None:
            found.append(_not_slower(m, title))
    for plan, m in kept.get("w2", {}).items():
        found += (
            [*_less(m, f"W2 {plan}", "auto auto", most=0.25, faster=1.0)]
            if plan == "((a b) c)"
            else [_not_slower(m, f"W2 {plan}")]
        )
    for title, figure in kept.get("figures", {}).items():
        if figure["parameter"] != "dmax":
            found.append(_grows(title, figure))
    return found


def _less(
    m: Mapping[str, Any],
    title: str,
    form: str,
    most: float | None = None,
    stored: float | None = None,
    faster: float | None = None,
) -> list[Claim]:
    ref, mine, found = m["REF"], m[form], []
    if most is not None:
        share = mine["partials"] / ref["partials"]
        found.append(
            _claim(f"{title}, {form}: share of the partial results", f"at most {most:.2f}", share, share <= most)
        )
    if stored is not None:
        share = mine["intermediate_rows"] / ref["intermediate_rows"]
        found.append(
            _claim(
                f"{title}, {form}: share of the intermediate rows stored",
                f"at most {stored:.2f}",
                share,
                share <= stored,
            )
        )
    if faster is not None:
        ratio = ref["cpu_s"] / mine["cpu_s"]
        found.append(_claim(f"{title}, {form}: times less CPU", f"at least {faster:g}", ratio, ratio >= faster))
    return found


def _not_slower(m: Mapping[str, Any], title: str) -> Claim:
    ratio = m["auto auto"]["cpu_s"] / m["REF"]["cpu_s"]
    return _claim(f"{title}, auto: CPU against REF", "at most 1.05", ratio, ratio <= 1.05)


def _grows(title: str, figure: Mapping[str, Any]) -> Claim:
    """Whether the gain at the last place is above that at the first."""
    gains = [m["REF"]["cpu_s"] / min(m["exact chain"]["cpu_s"], m["auto auto"]["cpu_s"]) for m in figure["measures"]]
    shown = [round(gain, 2) for gain in gains]
    return {"goal": f"figure {title}: times less CPU", "asked": "growing", "found": shown, "met": gains[-1] > gains[0]}


def _claim(goal: str, asked: str, found: float, met: bool) -> Claim:
    return {"goal": goal, "asked": asked, "found": round(found, 4), "met": bool(met)}


def show(found: list[Claim]) -> None:
    for claim in found:
        print(f"{'met  ' if claim['met'] else 'UNMET'} {claim['goal']}: {claim['asked']}, found {claim['found']}")


def page(found: list[Claim]) -> str:
    """The goals as a table, for people."""
    lines = ["| goal | asked | found | met |", "| --- | --- | --- | --- |"]
    for claim in found:
        shown = ", ".join(map(str, claim["found"])) if isinstance(claim["found"], list) else claim["found"]
        lines.append(f"| {claim['goal']} | {claim['asked']} | {shown} | {'yes' if claim['met'] else '**no**'} |")
    return "\n".join(["# Goals of just-in-time joins", "", "Made by `run.py` from `grid.json`.", "", *lines, ""])
