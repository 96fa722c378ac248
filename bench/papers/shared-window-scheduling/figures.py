"""Figures 2, 3, 5 to 9 and Table 1 of the scheduling paper, ours beside its claims.

Answer   Measures, writes `results/figures.json`, a picture per figure and the tables of the README, and prints each
         claim with what was found.

    python -m bench.papers.run shared-window-scheduling [--steps loads,wall_clock]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from engine import cpu_clock, wall_clock
from measures import BURSTS, NAMES, OUTPUT_SHARE, buffers, bursts, counted, distributions, formulas, loads, skewed
from tables import CLOCKS, HOLDING, JOIN_BUFFER, engine_settings, fill
from workload import TABLE_1

from bench import harness, plots

HERE = Path(__file__).parent
RESULTS = HERE / "results"
#: What the paper says of the two other buffers, as shares of a join buffer.
BUFFERS = {"scheduling_buffer": 0.10, "output_rows": OUTPUT_SHARE, "output_buffer": OUTPUT_SHARE}
WORDS = {
    "scheduling_buffer": "scheduling buffer",
    "output_rows": "output buffer (rows with an entry)",
    "output_buffer": "output buffer (single results)",
}
#: Per kind of setting of the engine, what its picture shows.
ENGINE_PICTURES = {
    "distributions": "Figure 5, four window distributions (hash)",
    "distributions_loop": "four window distributions (nested loop)",
    "distributions_rows": "four window distributions (windows of rows)",
    "bursts": "Figure 7, Pareto bursts of mean 1 to 5",
    "skewed": "Figure 9, 24 of 30 queries on one window",
}
#: By real clocks two orders of work that are the same differ by so much.
NOISE = 1.05


STEPS = {
    "formulas": formulas,
    "distributions": distributions,
    "distributions_loop": lambda: distributions(loop=True),
    "distributions_rows": counted,
    "bursts": bursts,
    "buffers": buffers,
    "skewed": skewed,
    "loads": loads,
    "wall_clock": wall_clock,
    "cpu_clock": cpu_clock,
}


def picture_all(found: dict) -> None:
    windows = [f"{w} s" for w in found["formulas"]["windows"]]
    for number, name in ((2, "lwo"), (3, "swf")):
        shown = {
            "isolated": found["formulas"]["isolated"],
            name.upper(): found["formulas"]["formula"][name],
            "simulated": found["formulas"]["simulated"][name],
        }
        title = f"Figure {number}(b): {name.upper()} and isolated execution, 50 rows at once"
        plots.bars(RESULTS / f"figure-{number}.png", title, windows, shown, unit="mean response, s", log=True)
    by_name = found["distributions"]
    shown = {n.upper(): [by_name[d][n]["overall"] * 1e3 for d in TABLE_1] for n in NAMES}
    plots.bars(
        RESULTS / "figure-5.png",
        "Figure 5: four window distributions (hash)",
        list(TABLE_1),
        shown,
        unit="mean response, ms",
    )
    shown = {n.upper(): [found["distributions_loop"][d][n]["overall"] * 1e3 for d in TABLE_1] for n in NAMES}
    plots.bars(
        RESULTS / "loop.png",
        "Four window distributions (nested loop, 15 rows/s)",
        list(TABLE_1),
        shown,
        unit="mean response, ms",
    )
    for distribution, sizes in TABLE_1.items():
        for measure in ("mean", "max"):
            shown = {n.upper(): [s * 1e3 for s in by_name[distribution][n][measure]] for n in NAMES}
            title = f"Figure 6: {distribution}, {measure} response per window"
            path = RESULTS / f"figure-6-{distribution}-{measure}.png"
            plots.bars(path, title, [f"{w} s" for w in sizes], shown, unit="ms", log=True)
    shown = {
        n.upper(): [float(np.median([run[n]["overall"] for run in found["bursts"][f"{b:g}"]])) for b in BURSTS]
        for n in NAMES
    }
    title = "Figure 7: Pareto bursts (median of five seeds)"
    plots.bars(
        RESULTS / "figure-7.png", title, [f"mean {b:g}" for b in BURSTS], shown, unit="mean response, s", log=True
    )
    five = found["bursts"]["5"]
    shown = {n.upper(): np.median([run[n]["mean"] for run in five], axis=0).tolist() for n in NAMES}
    sizes = [f"{w} s" for w in TABLE_1["small-large"]]
    plots.bars(
        RESULTS / "figure-8.png",
        "Figure 8: per window, bursts of mean five",
        sizes,
        shown,
        unit="mean response, s",
        log=True,
    )
    shown = {n.upper(): [found["skewed"][w][n]["overall"] * 1e3 for w in found["skewed"]] for n in NAMES}
    plots.bars(
        RESULTS / "figure-9.png",
        "Figure 9: 24 of 30 queries on one window",
        list(found["skewed"]),
        shown,
        unit="mean response, ms",
    )
    for clock, words in CLOCKS.items():
        for distribution, sizes in TABLE_1.items():
            said = found[clock]["distributions"][distribution]
            shown = {
                n if n == "plain" else n.upper(): [seconds * 1e3 for seconds in said[n]["mean"]]
                for n in ("plain", *NAMES)
            }
            title = f"The engine {words}: {distribution}, mean response per window"
            path = RESULTS / f"{clock.replace('_', '-')}-{distribution}.png"
            plots.bars(path, title, [f"{w} s" for w in sizes], shown, unit="ms", log=True)
        for kind, title in ENGINE_PICTURES.items():
            every = found[clock][kind]
            shown = {n.upper(): [said[n]["overall"] * 1e3 for said in every.values()] for n in NAMES}
            path = RESULTS / f"{clock.replace('_', '-')}-{kind.replace('_', '-')}.png"
            plots.bars(path, f"The engine {words}: {title}", list(every), shown, unit="mean response, ms")


def settings(found: dict) -> dict[str, dict]:
    """Every setting in which the three were compared: what each said."""
    every = {f"hash {d}": said for d, said in found["distributions"].items()}
    every |= {f"loop {d}": said for d, said in found["distributions_loop"].items()}
    every |= {f"rows {d}": said for d, said in found["distributions_rows"].items()}
    every |= {f"burst {b}, seed {n + 1}": run for b, runs in found["bursts"].items() for n, run in enumerate(runs)}
    every |= {f"skewed {w}": said for w, said in found["skewed"].items()}
    return every


def judge(found: dict) -> list[dict[str, object]]:
    every = settings(found)
    best = [
        s for s, said in every.items() if said["mqt"]["overall"] <= min(said[n]["overall"] for n in NAMES) * (1 + 1e-12)
    ]
    three = [1 - run["mqt"]["overall"] / run["lwo"]["overall"] for run in found["bursts"]["3"]]
    others = ("lwo", "swf", "swf bounded")
    bounded = [
        s for s, said in every.items() if said["mqt bounded"]["overall"] <= min(said[n]["overall"] for n in others)
    ]
    three_bounded = [1 - run["mqt bounded"]["overall"] / run["lwo"]["overall"] for run in found["bursts"]["3"]]
    three_swf = [1 - run["mqt"]["overall"] / run["swf"]["overall"] for run in found["bursts"]["3"]]
    sooner = {d: said["lwo"]["mean"][0] / said["mqt"]["mean"][0] for d, said in found["distributions"].items()}
    steady = found["distributions"]
    loads_best = [
        s for s, said in found["loads"].items() if said["mqt"]["overall"] <= min(said[n]["overall"] for n in NAMES)
    ]
    claims = [
        ("MQT has the best mean response in all settings", f"{len(best)} of {len(every)}", len(best) == len(every)),
        (
            "the same at loads from 0.3 to 0.9",
            f"{len(loads_best)} of {len(found['loads'])}",
            len(loads_best) == len(found["loads"]),
        ),
        (
            "MQT at least 40 % better than LWO at burst 3, median of five seeds (paper: up to 60 %)",
            three,
            float(np.median(three)) >= 0.4,
        ),
        ("MQT up to 30 % better than SWF at burst 3, median", three_swf, float(np.median(three_swf)) >= 0.3),
        (
            "MQT bounded is better than LWO and SWF, bounded or not, in all settings",
            f"{len(bounded)} of {len(every)}",
            len(bounded) == len(every),
        ),
        (
            "MQT bounded at least 40 % better than LWO at burst 3, median",
            three_bounded,
            float(np.median(three_bounded)) >= 0.4,
        ),
        ("the smallest window at least 10 times sooner than under LWO", sooner, min(sooner.values()) >= 10),
    ]
    for buffer, most in BUFFERS.items():
        for n, called in HOLDING.items():
            shares = {d: said[n][buffer] / JOIN_BUFFER for d, said in steady.items()}
            words = f"{WORDS[buffer]} of {called} within {most:.0%} of a join buffer"
            claims.append((f"{words}, exponential arrivals", shares, max(shares.values()) <= most))
            for load, runs in {**found["buffers"], "0.8": found["bursts"]["5"]}.items():
                share = float(np.median([run[n][buffer] for run in runs])) / JOIN_BUFFER
                claims.append((f"{words}, bursts of 5 at load {load}, median of seeds", share, share <= most))
    for clock, words in CLOCKS.items():
        told = engine_settings(found[clock])
        against = {s: max(said["compared"]["mqt_to_lwo"], said["compared"]["mqt_to_swf"]) for s, said in told.items()}
        close = [s for s, ratio in against.items() if ratio <= NOISE]
        claims.append(
            (f"{words}: MQT best mean, within {NOISE - 1:.0%}", f"{len(close)} of {len(told)}", len(close) == len(told))
        )
        gain = 1 - told["bursts of mean 3"]["compared"]["mqt_to_lwo"]
        claims.append((f"{words}: MQT at least 40 % better than LWO at burst 3", gain, gain >= 0.4))
        ahead = {
            s: said["compared"]["smallest_window_sooner"] for s, said in told.items() if not s.startswith("24 of 30")
        }
        claims.append(
            (f"{words}: the smallest window at least 10 times sooner than under LWO", ahead, min(ahead.values()) >= 10)
        )
    return [{"claim": claim, "found": seen, "holds": bool(holds)} for claim, seen, holds in claims]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", help="measure only these again, and keep the rest of the last results")
    parser.add_argument("--redraw", action="store_true", help="draw what was measured last")
    chosen = parser.parse_args()
    path = RESULTS / "figures.json"
    found = dict(harness.read(path)) if chosen.redraw or chosen.steps else {}
    for name in [] if chosen.redraw else chosen.steps.split(",") if chosen.steps else STEPS:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found[name] = STEPS[name]()
    kept = {name: found[name] for name in STEPS}
    found["claims"] = judge(found)
    if not chosen.redraw:
        harness.write(path, "Scheduling for shared window joins", {**kept, "claims": found["claims"]})
    picture_all(found)
    readme = HERE / "README.md"
    readme.write_text(fill(readme.read_text(), found))
    for claim in found["claims"]:
        print(json.dumps(claim))


if __name__ == "__main__":
    main()
