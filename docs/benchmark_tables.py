"""The benchmark page and the figures of *why eddyline*, made from the result files in bench/.

Answer   `python docs/benchmark_tables.py` writes docs/benchmarks.md anew from bench/peers/results/*.json and
         bench/nexmark/results/*.json, and the figures of docs/why-eddyline.md: what was measured, where, on which load;
         nothing that is not in a result file.
Limits   Pictures are copied to docs/pictures, where the site finds them. A run that a larger one covers is not shown.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "peers" / "results"
NEXMARK = ROOT / "bench" / "nexmark" / "results"
sys.path.insert(0, str(ROOT))

from bench.nexmark.__main__ import speed as nexmark_speed  # noqa: E402
from bench.nexmark.__main__ import table as nexmark_table  # noqa: E402
from bench.peers import NOTES  # noqa: E402
from bench.peers.__main__ import unfinished  # noqa: E402
from bench.workloads import SHAPES  # noqa: E402

HEAD = """\
<!-- made by docs/benchmark_tables.py from bench/peers/results and bench/nexmark/results -->
# Benchmarks

What was measured, on which machine, with which load. `bench/README.md` says how: contenders take turns in one run, all must find the same
number of results, and a ratio is taken from one run. Run them on your own machine: `make bench-peers-setup`, then `make bench-peers` and
`make bench-nexmark`. The workloads are

| name | query | rows per stream | event time | values | results |
| --- | --- | --- | --- | --- | --- |
| W1 | two streams, `a.k = b.k`, 10 s windows | 500,000 | 1,000 rows/s | 1..1,000 | 9,897,521 |
| W1s | the same, few matches | 500,000 | 1,000 rows/s | 1..100,000 | 98,586 |
| W2 | three streams, `a.x = b.x AND a.y = c.y`, 10 s | 200,000 | 1,000 rows/s | 1..2,000, 1..200,000 | 144,465 |
| W3 | four streams, all six pairs, 20 min | 18,000 | 1 row/s | 1..200 | 1 |
| W30m | two streams, `a.k = b.k`, 60 s windows | 4,500,000 | 2,500 rows/s | 1..100,000 | 13,271,248 |

`duckdb` is the batch join of the same files, with everything known beforehand. `eddyline` produces results in one process. `spark-native`
is Spark's own stream-stream join; on Spark the first micro-batch and its rows do not count. A factor (4x, 16x) makes the workload longer at
the same rates. **Provisional** is a run that began while the machine did other things too, or that has fewer than three samples: such
figures show that a contender runs and agrees; their ratios are orders of magnitude.
"""

#: Pictures that the page shows: where each lies in bench/, and what it shows.
PICTURES = (
    ("micro/results/linear.png", "W1 made 4 and 16 times as long at the same rates: input rows per second"),
    ("papers/cacq/results/filters.png", "standing filters, grouped and one by one"),
    (
        "papers/cacq/results/end_to_end.png",
        "100 queries over the join of W1, about as many results as the one without filters: CPU seconds",
    ),
    ("papers/cacq/results/eddy.png", "the eddy and fixed probe orders while the selective stream changes"),
    ("papers/qualified-plans/results/found.png", "how often the search finds a join tree within the budgets"),
    (
        "papers/qualified-plans/results/model_reality.png",
        "join trees of random queries: predicted and measured CPU and state",
    ),
    ("papers/just-in-time/results/figure-10-cpu_s.png", "just-in-time joins off and on, over the window: CPU seconds"),
    (
        "papers/shared-window-scheduling/results/figure-5.png",
        "response times of shared windows under three schedulers, virtual clock",
    ),
)

#: Around the figures in docs/why-eddyline.md.
BEGIN, END = "<!-- figures made by docs/benchmark_tables.py -->", "<!-- end of figures -->"

TAIL = """\
## Pictures

Each folder of `bench/papers` has a README with its claims, what was found, and what differs; these are some of their pictures.
"""


def names(result: dict[str, Any]) -> set[str]:
    return {measure["name"] for measure in result["measures"]}


def few_samples(result: dict[str, Any]) -> bool:
    # NEXMark has one turn on Spark: its micro-batches are samples of their own.
    return min(len(measure["samples"]) for measure in result["measures"] if measure["name"] != "spark") < 3


def provisional(result: dict[str, Any]) -> bool:
    return few_samples(result) or result["load_before"] > 0.75 * result["machine"]["cores"]


def covered(result: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    """A run of the same kind has these contenders and more, or one of the same contenders has more rows; and it is not
    provisional
    where this one is not.
    """

    def covers(other: dict[str, Any]) -> bool:
        if (
            other is result
            or other["workload"] != result["workload"]
            or (provisional(other) and not provisional(result))
        ):
            return False
        same = (other["rows_in"], other["batches"]) == (result["rows_in"], result["batches"])
        return (same and names(result) < names(other)) or (
            names(result) <= names(other) and other["rows_in"] > result["rows_in"]
        )

    return any(map(covers, others))


def rate(result: dict[str, Any], measure: dict[str, Any]) -> float:
    """Rows per second. On Spark the first micro-batch is not timed, nor are its rows. 0 for a run that was stopped."""
    details = measure["samples"][-1]["details"].get("details", {})
    return 0.0 if details.get("stopped") else details.get("timed_rows", result["rows_in"]) / measure["median"]


def baseline(result: dict[str, Any]) -> dict[str, Any]:
    return next((measure for measure in result["measures"] if measure["name"] == "eddyline"), result["measures"][0])


def circumstances(result: dict[str, Any]) -> str:
    machine = result["machine"]
    versions = ", ".join(
        f"{name} {number}" for name, number in {**machine["versions"], **result.get("peers", {})}.items()
    )
    hardware = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    mark = "**Provisional.** " if provisional(result) else ""
    rows = f"{mark}{result['rows_in']:,} rows, {result['batches']} files per stream, {result['factor']}x."
    return f"{rows} {hardware}; Python {machine['python']}, {versions}. Load before the run {result['load_before']}. {result['when'][:10]}."


def section(result: dict[str, Any]) -> str:
    first = baseline(result)
    columns = [
        "contender",
        "samples",
        "median s",
        "p10 to p90",
        "rows/s",
        f"speed against {first['name']}",
        "memory, peak",
    ]
    columns.append("reads, and does not guarantee")
    lines = [circumstances(result), "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for measure in result["measures"]:
        fast, base = rate(result, measure), rate(result, first)
        cells = [measure["name"], str(len(measure["samples"]))]
        if fast and base:
            cells += [
                f"{measure['median']:.2f}",
                f"{measure['p10']:.2f} to {measure['p90']:.2f}",
                f"{fast:,.0f}",
                f"{fast / base:.2f}",
            ]
        else:
            cells += [unfinished(measure["samples"][-1]["details"].get("details", {})), "", "", ""]
        cells += [f"{measure['peak_rss'] / 1e6:,.0f} MB", NOTES.get(measure["name"], "")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"`{name}` did not run: {reason}." for name, reason in result.get("absent", {}).items())]
    return "\n".join(lines).rstrip() + "\n"


def found() -> list[dict[str, Any]]:
    """The runs of the peers that no other covers: by workload, most contenders first."""
    read = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    runs = [result for result in read if result.get("measures")]
    shown = [result for result in runs if not covered(result, runs)]
    return sorted(shown, key=lambda result: (result["workload"], -len(result["measures"])))


def nexmark() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(NEXMARK.glob("q*.json"))]


def nexmark_section() -> list[str]:
    records = nexmark()
    if not records:
        return []
    machine = records[0]["machine"]
    mark = "**Provisional.** " if any(map(provisional, records)) else ""
    events = ", ".join(sorted({f"{record['rate']:,.0f} events/s for {record['seconds']:g} s" for record in records}))
    taken: dict[str, list[int]] = {}
    for measure in (measure for record in records for measure in record["measures"]):
        taken.setdefault(measure["name"], []).append(len(measure["samples"]))
    samples = ", ".join(f"{name} {min(counts)}" for name, counts in taken.items())
    text = f"""\
## NEXMark

{mark}The queries of [examples/nexmark](nexmark.md), embedded, on Spark (micro-batches of ten seconds of event time) and on Flink
{records[0]["flink"]} with one task slot per core; all read the same rows from csv and drop their results. {events}; medians of
samples (at least: {samples}), those of Flink from one Java process that has run the query before.
{machine["processor"]}, {machine["cores"]} cores, {machine["memory_gib"]} GiB. Largest load before a run
{max(record["load_before"] for record in records)}. `make bench-nexmark`. Flink takes no checkpoints in these runs, the embedded engine
neither; on Spark there is one per micro-batch. Where an engine has no figure, it did not run or was stopped.
"""
    return [text, "\n".join(nexmark_table(NEXMARK)) + "\n"]


def patterns_section() -> list[str]:
    records = [json.loads(path.read_text()) for path in sorted((RESULTS / "patterns").glob("*.json"))]
    if not records:
        return []
    text = """\
## Event patterns

A sequence of three types, each at most once per trace, over the orders generator: an EVENT query, Flink's MATCH_RECOGNIZE and a state
machine per trace in bytewax. `python -m bench.peers.patterns`.
"""
    return [text, *(section({"batches": 1, "factor": 1, **record}) for record in records)]


def page() -> str:
    parts, last = [HEAD], ""
    for result in found():
        if result["workload"] != last:
            last = result["workload"]
            # A title ends with the number of batches and the factor, which each run says itself.
            parts.append(f"## {result['title'].rsplit(', ', 2)[0]}\n")
        parts.append(section(result))
    shown = [
        f"![{what}](pictures/{name_of(source)})\n\n*{what[0].upper()}{what[1:]}* (`bench/{source}`).\n"
        for source, what in PICTURES
    ]
    return "\n".join([*parts, *patterns_section(), *nexmark_section(), TAIL, *shown])


def command(result: dict[str, Any]) -> str:
    """What measures a run again."""
    contenders = "all" if len(names(result)) > 5 else " ".join(measure["name"] for measure in result["measures"])
    streams = len(SHAPES[result["workload"]].streams)
    rows, usual = result["rows_in"] // result["factor"] // streams, SHAPES[result["workload"]].rows
    fewer = f" --rows {rows}" if rows != usual else ""
    return f"python -m bench.peers --runner {contenders} --workload {result['workload']} --batches {result['batches']}{fewer}"


def figures() -> str:
    """The figures of *why eddyline*: how many times as many rows per second as others, of the runs with most
    contenders."""
    lines = ["| measured | times as fast | rows | command |", "| --- | --- | --- | --- |"]
    for result in found():
        if few_samples(result):
            # One sample shows that contenders agree; a ratio of it says nothing.
            continue
        speeds = {measure["name"]: rate(result, measure) for measure in result["measures"]}
        for ours, others in (
            ("eddyline", ("duckdb", "flink", "bytewax", "pathway")),
            ("eddyline-spark", ("spark-native",)),
        ):
            for other in others:
                if speeds.get(ours) and speeds.get(other):
                    mark = ", provisional" if provisional(result) else ""
                    what = f"{result['workload']}, {result['batches']} files: `{ours}` against `{other}`{mark}"
                    lines.append(
                        f"| {what} | {speeds[ours] / speeds[other]:.2f} | {result['rows_in']:,} | `{command(result)}` |"
                    )
    records = [
        (record, {measure["name"]: nexmark_speed(record, measure) for measure in record["measures"]})
        for record in nexmark()
    ]
    for ours in ("embedded", "spark"):
        ratios = [speeds[ours] / speeds["flink"] for _, speeds in records if speeds.get(ours) and speeds.get("flink")]
        if ratios:
            mark = " (provisional)" if any(provisional(record) for record, _ in records) else ""
            text = f"NEXMark, {len(ratios)} queries, median: {ours} against Flink{mark}"
            lines.append(
                f"| {text} | {statistics.median(ratios):.2f} | {max(record['rows_in'] for record, _ in records):,} | `make bench-nexmark` |"
            )
    return "\n".join(lines)


def with_figures(text: str) -> str:
    """The page *why eddyline* with the figures of now between its two marks."""
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n{figures()}\n\n{END}{rest.split(END, 1)[1]}"


def name_of(source: str) -> str:
    """A picture's name in docs/pictures: its folder tells those of equal name apart."""
    return source.replace("/results/", "-").replace("/", "-")


if __name__ == "__main__":
    (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    for source, _ in PICTURES:
        shutil.copyfile(ROOT / "bench" / source, ROOT / "docs" / "pictures" / name_of(source))
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page())
    reasons = ROOT / "docs" / "why-eddyline.md"
    reasons.write_text(with_figures(reasons.read_text()))
    print(target.relative_to(ROOT), reasons.relative_to(ROOT))
