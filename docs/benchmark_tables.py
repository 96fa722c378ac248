"""The benchmark page, made from the result files in bench/.

Answer   `python docs/benchmark_tables.py` writes docs/benchmarks.md anew from bench/peers/results/*.json: what was measured,
         where, on which load; nothing that is not in a result file.
Limits   Pictures are copied to docs/pictures, where the site finds them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "peers" / "results"

HEAD = """\
<!-- made by docs/benchmark_tables.py from bench/peers/results -->
# Benchmarks

What was measured, on which machine, with which load. `bench/README.md` says how: contenders take turns in one run, all must find the same
number of results, and a ratio is taken from one file. Run them on your own machine with `make bench-peers`; the workloads are

| name | query | rows per stream | event time | values | results |
| --- | --- | --- | --- | --- | --- |
| W1 | two streams, `a.k = b.k`, 10 s windows | 500,000 | 1,000 rows/s | 1..1,000 | 9,897,521 |
| W1s | the same, few matches | 500,000 | 1,000 rows/s | 1..100,000 | 98,586 |
| W2 | three streams, `a.x = b.x AND a.y = c.y`, 10 s | 200,000 | 1,000 rows/s | 1..2,000, 1..200,000 | 144,465 |
| W3 | four streams, all six pairs, 20 min | 18,000 | 1 row/s | 1..200 | 1 |

`duckdb` is the batch join of the same files, with everything known beforehand, on two threads. `eddyline` reads parquet and produces
results in one process. `spark-native` is Spark's own stream-stream join. A factor (4x, 16x) makes the workload longer at the same rates.
A load near the number of cores means that the machine did other things too: read such figures as a range.
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
    ("papers/qualified-plans/results/model_reality.png", "join trees of random queries: predicted and measured CPU and state"),
    ("papers/just-in-time/results/figure-10-cpu_s.png", "just-in-time joins off and on, over the window: CPU seconds"),
    ("papers/shared-window-scheduling/results/figure-5.png", "response times of shared windows under three schedulers, virtual clock"),
)

TAIL = """\
## Pictures

Each folder of `bench/papers` has a README with its claims, what was found, and what differs; these are some of their pictures.
"""


def section(result: dict[str, Any]) -> str:
    machine = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    baseline = next((m["median"] for m in result["measures"] if m["name"] == result.get("baseline") and len(result["measures"]) > 1), None)
    hardware = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    load = "".join(f" Load {when} the run {result[f'load_{when}']}." for when in ("before", "after") if f"load_{when}" in result)
    lines = [
        f"## {result['title']}",
        "",
        f"{result['rows_in']:,} rows. {hardware}; Python {machine['python']}, {versions}.{load} {result['when'][:10]}.",
        "",
        "| runner | samples | median s | p10 to p90 | rows/s | memory, peak | ratio of medians |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for measure in result["measures"]:
        median = measure["median"]
        ratio = f"{median / baseline:.2f}" if baseline else ""
        # On Spark the first micro-batch is not timed, nor are its rows.
        timed = measure["samples"][-1]["details"].get("details", {}).get("timed_rows", result["rows_in"])
        lines.append(
            f"| {measure['name']} | {len(measure['samples'])} | {median:.2f} | {measure['p10']:.2f} to {measure['p90']:.2f} "
            f"| {timed / median:,.0f} | {measure['peak_rss'] / 1e6:,.0f} MB | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def page() -> str:
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    sections = [section(result) for result in found if result.get("measures")]
    shown = [f"![{what}](pictures/{name_of(source)})\n\n*{what[0].upper()}{what[1:]}* (`bench/{source}`).\n" for source, what in PICTURES]
    return "\n".join([HEAD, *sections, TAIL, *shown])


def name_of(source: str) -> str:
    """A picture's name in docs/pictures: its folder tells those of equal name apart."""
    return source.replace("/results/", "-").replace("/", "-")


if __name__ == "__main__":
    (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    for source, _ in PICTURES:
        shutil.copyfile(ROOT / "bench" / source, ROOT / "docs" / "pictures" / name_of(source))
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page())
    print(target.relative_to(ROOT))
