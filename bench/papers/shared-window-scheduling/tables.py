"""The tables of the README, from what was measured.

Answer   `fill` replaces what stands between `<!-- NAME -->` and `<!-- end -->` in a text by the table of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from measures import BURSTS, NAMES
from workload import TABLE_1

#: Rows of one stream in the largest window, the paper's measure.
JOIN_BUFFER = 60_000
#: Schedulers that hold results back, without and with a bound.
HOLDING = {"swf": "SWF", "mqt": "MQT", "swf bounded": "SWF bounded", "mqt bounded": "MQT bounded"}
CLOCKS = {"wall_clock": "by the wall clock", "cpu_clock": "by CPU time"}
KINDS = {
    "distributions": "hash",
    "distributions_loop": "nested loop",
    "distributions_rows": "windows of rows",
    "bursts": "bursts of mean",
    "skewed": "24 of 30 queries on",
}


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def engine_settings(measured: dict) -> dict[str, dict]:
    return {f"{words} {name}": said for kind, words in KINDS.items() for name, said in measured[kind].items()}


def milliseconds(said: dict, names: tuple[str, ...]) -> str:
    best = min(said[n]["overall"] for n in NAMES)
    texts = [f"{said[n]['overall'] * 1e3:.1f}" for n in names]
    return " / ".join(
        f"**{text}**" if n in NAMES and said[n]["overall"] == best else text
        for n, text in zip(names, texts, strict=True)
    )


def model(found: dict) -> str:
    """Mean responses under the virtual clock."""
    lines = []
    for kind in ("distributions", "distributions_loop", "distributions_rows", "skewed"):
        for name, said in found[kind].items():
            lines.append([f"{KINDS[kind]} {name}", milliseconds(said, (*NAMES, "swf bounded", "mqt bounded"))])
    return table(["", "LWO / SWF / MQT / SWF bounded / MQT bounded, ms"], lines)


def bursts(found: dict) -> str:
    """MQT against LWO and SWF per burst size and seed."""
    lines = []
    for burst in BURSTS:
        runs = found["bursts"][f"{burst:g}"]

        def gains(name: str, against: str, runs: list[dict] = runs) -> str:
            return ", ".join(f"{100 * (1 - run[name]['overall'] / run[against]['overall']):.0f}" for run in runs)

        lines.append(
            [
                f"{burst:g}",
                gains("mqt", "lwo"),
                gains("mqt", "swf"),
                gains("mqt bounded", "lwo"),
                gains("mqt bounded", "swf bounded"),
            ]
        )
    head = [
        "mean burst",
        "MQT over LWO, % (five seeds)",
        "MQT over SWF, %",
        "MQT bounded over LWO, %",
        "over SWF bounded, %",
    ]
    return table(head, lines)


def buffers(found: dict) -> str:
    """The largest buffers, in percent of a join buffer."""
    loads = {**found["buffers"], "0.8": found["bursts"]["5"]}
    lines = []
    for buffer, words, bound in (
        ("scheduling_buffer", "scheduling buffer", 10),
        ("output_rows", "output buffer, entries", 3),
        ("output_buffer", "output buffer, single results", 3),
    ):
        for name, called in HOLDING.items():
            steady = ", ".join(
                f"{100 * said[name][buffer] / JOIN_BUFFER:.1f}" for said in found["distributions"].values()
            )
            bursty = " / ".join(
                f"{100 * np.median([run[name][buffer] for run in runs]) / JOIN_BUFFER:.1f}" for runs in loads.values()
            )
            lines.append([f"{words}, {called}", steady, bursty, str(bound)])
    return table(["", ", ".join(TABLE_1), f"bursts of 5, loads {' / '.join(loads)}", "bound"], lines)


def against(compared: dict) -> tuple[str, str]:
    return f"{100 * (1 - compared['mqt_to_lwo']):.0f}", f"{compared['smallest_window_sooner']:.1f}"


def engine(found: dict) -> str:
    """Mean responses of the engine, by both clocks."""
    both = [engine_settings(found[clock]) for clock in CLOCKS]
    lines = []
    for name in both[0]:
        line = [name]
        for settings in both:
            said = settings[name]
            line += [milliseconds(said, ("plain", *NAMES)), *against(said["compared"])]
        lines.append(line)
    head = [""]
    for words in CLOCKS.values():
        head += [f"{words}: plain / LWO / SWF / MQT, ms", "MQT over LWO, %", "smallest window sooner, times"]
    return table(head, lines)


def claims(found: dict) -> str:
    """All claims but those of the buffers, which have a table of their own."""
    lines = []
    for claim in (one for one in found["claims"] if "buffer" not in one["claim"]):
        seen = claim["found"]
        values = list(seen.values()) if isinstance(seen, dict) else seen if isinstance(seen, list) else [seen]
        text = ", ".join(value if isinstance(value, str) else f"{value:.3g}" for value in values)
        lines.append([claim["claim"], text, "yes" if claim["holds"] else "**no**"])
    return table(["claim", "found", "holds"], lines)


TABLES: dict[str, Callable[[dict], str]] = {
    "model": model,
    "bursts": bursts,
    "buffers": buffers,
    "engine": engine,
    "claims": claims,
}


def fill(text: str, found: dict) -> str:
    def filled(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{TABLES[match[1]](found)}\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", filled, text, flags=re.DOTALL)
