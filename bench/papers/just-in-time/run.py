"""Just-in-time joins with and without demand: the paper's plans, parameters and measures.

Answer   `python bench/papers/just-in-time/run.py [goals] [w2] [10 … 17]` runs what is named (everything, if nothing
         is), prints a line per setting, checks that the number of results is the same with and without, and keeps what
         it measured in `results/grid.json`; then it holds all that file has against the goals and draws the pictures.
Limits   CPU seconds of this process, everything included, the least of a few rounds that take turns; the grid off the
         defaults runs 2 h of event time, the defaults 5 h.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import claims

from bench import harness, plots, workloads
from eddyline import Session
from eddyline.connectors.generators.draws import GeneratorShape
from eddyline.connectors.generators.generate import clique

HERE = Path(__file__).parent
BUSHY = {
    4: "((a b) (c d))",
    5: "(((a b) (c d)) e)",
    6: "(((a b) (c d)) (e f))",
    7: "(((a b) (c d)) ((e f) g))",
    8: "(((a b) (c d)) ((e f) (g h)))",
}
LEFT = {3: "((a b) c)", 4: "(((a b) c) d)", 5: "((((a b) c) d) e)", 6: "(((((a b) c) d) e) f)"}


@dataclass(frozen=True)
class Setting:
    shape: str
    sources: int
    minutes: float
    rate: float
    dmax: int
    probe: str = "loop"
    hours: float = 2.0
    epoch_rows: int = 2_000

    @property
    def plan(self) -> str:
        return (BUSHY if self.shape == "bushy" else LEFT)[self.sources]


BUSHY_DEFAULT = Setting("bushy", 6, 20, 1.0, 200)
LEFT_DEFAULT = Setting("left-deep", 4, 10, 1.0, 50)
#: What a picture says along its axis.
ACROSS = {
    "minutes": "window, minutes",
    "rate": "rows per second and stream",
    "sources": "streams",
    "dmax": "values of a join column (dmax)",
}
FIGURES = {
    "10 window, bushy": ("minutes", [replace(BUSHY_DEFAULT, minutes=m) for m in (10, 20, 30)]),
    "11 rate, bushy": ("rate", [replace(BUSHY_DEFAULT, rate=r) for r in (0.4, 1.0, 1.6)]),
    "12 sources, bushy": ("sources", [replace(BUSHY_DEFAULT, sources=n) for n in (4, 5, 6, 7, 8)]),
    "13 dmax, bushy": ("dmax", [replace(BUSHY_DEFAULT, dmax=d) for d in (100, 200, 300)]),
    "14 window, left-deep": ("minutes", [replace(LEFT_DEFAULT, minutes=m) for m in (5, 10, 15)]),
    "15 rate, left-deep": ("rate", [replace(LEFT_DEFAULT, rate=r) for r in (0.4, 1.0, 1.6)]),
    "16 sources, left-deep": ("sources", [replace(LEFT_DEFAULT, sources=n) for n in (3, 4, 5, 6)]),
    "17 dmax, left-deep": ("dmax", [replace(LEFT_DEFAULT, dmax=d) for d in (30, 50, 70)]),
}
#: Settings of the goals, with the forms to compare: (title, setting, forms).
AUTO, CHAIN, PROBES, ONE_SIDED = ("auto", "auto"), ("exact", "chain"), ("exact", "probes"), ("exact", "one-sided")
FORMS = (AUTO, CHAIN, PROBES, ONE_SIDED, ("bloom", "chain"))
GOALS = [
    ("bushy default", replace(BUSHY_DEFAULT, hours=5), FORMS),
    ("bushy default, hash", replace(BUSHY_DEFAULT, hours=5, probe="hash"), FORMS),
    (
        "bushy, rate x10, hash",
        replace(BUSHY_DEFAULT, rate=10.0, hours=2.0, probe="hash", epoch_rows=20_000),
        (AUTO, CHAIN),
    ),
    ("left-deep default", replace(LEFT_DEFAULT, hours=5), FORMS),
    ("left-deep default, hash", replace(LEFT_DEFAULT, hours=5, probe="hash"), FORMS),
    ("bushy N=4, dmax 50, hash", replace(BUSHY_DEFAULT, sources=4, dmax=50, hours=5, probe="hash"), FORMS),
    (
        "every row finds partners, hash",
        replace(BUSHY_DEFAULT, sources=4, dmax=6, minutes=1.5, hours=5, probe="hash"),
        (AUTO, CHAIN),
    ),
]
#: A run of fewer seconds is measured in several rounds.
SHORT, ROUNDS = 2.0, 9


def measure(statements: list[str], query: str, **settings: object) -> dict[str, float]:
    with Session() as session:
        for name, value in settings.items():
            session.set(name, value)
        for statement in statements:
            session.execute(statement)
        session.execute(query)
        began = time.process_time()
        session.run(final=False)
        seconds = time.process_time() - began
        stats = session.stats()
    stored = sum(rows for name, rows in stats["stored_rows"].items() if ":" in name)
    counts = ("suspensions", "marks", "resumptions", "demand_checks", "visited")
    return {
        "cpu_s": round(seconds, 3),
        "partials": stats["partials_produced"],
        "intermediate_rows": stored,
        "peak_rows": stats["peak_stored_rows"],
        "peak_bytes": stats["peak_state_bytes"],
        "results": stats["results"]["q"],
        **{name: stats[name] for name in counts},
    }


def clique_query(setting: Setting) -> str:
    names = "abcdefgh"[: setting.sources]
    equalities = [
        f"{names[i]}.x{n} = {names[j]}.x{n}" for n, (i, j) in enumerate(combinations(range(setting.sources), 2), 1)
    ]
    windows = ", ".join(f"{name} [RANGE {round(setting.minutes * 60)} SECONDS]" for name in names)
    chosen = ", ".join(f"{name}.ts AS t_{name}" for name in names)
    return f"CREATE QUERY q AS SELECT {chosen} FROM {windows} WHERE {' AND '.join(equalities)}"


def run(setting: Setting, forms: tuple[tuple[str, str], ...]) -> dict[str, dict[str, float]]:
    """REF and each form over the same rows."""
    with tempfile.TemporaryDirectory(prefix="eddyline-jit-") as folder:
        last = 100 if setting.shape == "left-deep" else 1
        made = clique(
            folder,
            GeneratorShape(rate=setting.rate, seconds=setting.hours * 3600),
            sources=setting.sources,
            dmax=setting.dmax,
            last_factor=last,
        )
        common = {"plan": setting.plan, "probe": setting.probe, "epoch_rows": setting.epoch_rows}
        wishes = {"REF": {"jit": "off"}} | {
            f"{jit} {control}": {"jit": jit, "jit_control": control} for jit, control in forms
        }
        return taking_turns(
            {
                name: partial(measure, made.statements, clique_query(setting), **common, **wish)
                for name, wish in wishes.items()
            }
        )


def taking_turns(contenders: dict[str, Callable[[], dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Each once, the short ones several times, one after the other: the least CPU time of each counts."""
    found = {name: contender() for name, contender in contenders.items()}
    rounds = ROUNDS - 1 if max(m["cpu_s"] for m in found.values()) < SHORT else 0
    for number in range(rounds):
        # The contender that is first in one round is last in the next.
        for name in list(contenders) if number % 2 else reversed(contenders):
            found[name]["cpu_s"] = min(found[name]["cpu_s"], contenders[name]()["cpu_s"])
    if len({m["results"] for m in found.values()}) != 1:
        raise RuntimeError(f"the number of results differs: {found}")
    return found


def say(title: str, found: dict[str, dict[str, float]]) -> None:
    ref = found["REF"]
    for name, m in found.items():
        partials = 100 * m["partials"] / max(ref["partials"], 1)
        stored = 100 * m["intermediate_rows"] / max(ref["intermediate_rows"], 1)
        made = f"{m['partials']:10,} partials ({partials:6.2f} %), {m['marks']:10,} refused"
        print(f"{title:30} {name:16} {m['cpu_s']:8.3f} s {made}  {stored:6.2f} % of the rows", flush=True)


def w2() -> dict[str, dict[str, dict[str, float]]]:
    """The three-way join of the peers' comparison, under its worse and its better tree."""
    made = workloads.make("W2")
    parts = [part.strip() for part in made.job().split(";")]
    streams = [part for part in parts if part.upper().startswith("CREATE STREAM")]
    query = next(part for part in parts if part.upper().startswith("CREATE QUERY"))
    return {
        plan: taking_turns(
            {
                name: partial(measure, streams, query, plan=plan, jit=jit, epoch_rows=20_000)
                for name, jit in (("REF", "off"), ("auto auto", "auto"), ("exact auto", "exact"))
            }
        )
        for plan in ("((a b) c)", "((a c) b)")
    }


def main(parts: list[str]) -> None:
    parts = parts or ["goals", "w2", *(title.split(" ")[0] for title in FIGURES)]
    path = HERE / "results" / "grid.json"
    kept: dict[str, Any] = dict(harness.read(path)) if path.exists() else {}
    run(replace(LEFT_DEFAULT, hours=0.2), FORMS)
    for title, setting, forms in GOALS:
        if "goals" in parts:
            kept.setdefault("goals", {})[title] = {
                "setting": asdict(setting),
                "measures": (found := run(setting, forms)),
            }
            say(title, found)
    if "w2" in parts:
        kept["w2"] = w2()
        for plan, found in kept["w2"].items():
            say(f"W2 {plan}", found)
    for title, (parameter, settings) in FIGURES.items():
        if title.split(" ")[0] in parts:
            places = [getattr(setting, parameter) for setting in settings]
            measured = [run(setting, (AUTO, CHAIN)) for setting in settings]
            kept.setdefault("figures", {})[title] = {"parameter": parameter, "places": places, "measures": measured}
            for place, found in zip(places, measured, strict=True):
                say(f"{title} {place}", found)
    kept["claims"] = claims.claims(kept)
    harness.write(
        path, "just-in-time joins", {name: kept[name] for name in ("goals", "w2", "figures", "claims") if name in kept}
    )
    claims.show(kept["claims"])
    (HERE / "results" / "claims.md").write_text(claims.page(kept["claims"]))
    draw()


def shown(name: str) -> str:
    """A contender as the legend says it: what is set, not how the result file names it."""
    if name == "REF":
        return "jit = off"
    jit, control = name.split(" ")
    return f"jit = {jit}" if control == "auto" else f"jit = {jit}, control = {control}"


def draw() -> None:
    """The pictures, from the result file."""
    for title, figure in harness.read(HERE / "results" / "grid.json").get("figures", {}).items():  # type: ignore[attr-defined]
        measured = figure["measures"]
        for what, unit in (("cpu_s", "CPU seconds"), ("peak_rows", "peak stored rows")):
            lines = {shown(name): [max(m[name][what], 0.01) for m in measured] for name in measured[0]}
            path = HERE / "results" / f"figure-{title.split(' ')[0]}-{what}.png"
            plots.lines(
                path,
                f"Figure {title}",
                figure["places"],
                lines,
                across=ACROSS.get(figure["parameter"], figure["parameter"]),
                unit=unit,
                log=True,
            )


if __name__ == "__main__":
    draw() if "--redraw" in sys.argv else main(sys.argv[1:])
