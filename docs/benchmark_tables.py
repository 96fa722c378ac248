"""The benchmark page, made from the result files in bench/.

Answer   `python docs/benchmark_tables.py` writes docs/benchmarks.md anew from bench/peers/results/*.json: what was measured,
         where, on which load; nothing that is not in a result file.
Limits   Results of runs on a busy machine (`busy/`) are left out.
"""

from __future__ import annotations

import json
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

TAIL = """\
## Benchmarks of papers

`bench/papers/cacq` measures grouped filters against one filter after the other; `bench/papers/qualified-plans` how often the search
for a join tree finds one within the budgets. Each folder has a README with its figures, and its results as JSON and pictures.
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
        lines.append(
            f"| {measure['name']} | {len(measure['samples'])} | {median:.2f} | {measure['p10']:.2f} to {measure['p90']:.2f} "
            f"| {result['rows_in'] / median:,.0f} | {measure['peak_rss'] / 1e6:,.0f} MB | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def page() -> str:
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    sections = [section(result) for result in found if result.get("measures")]
    return "\n".join([HEAD, *sections, TAIL])


if __name__ == "__main__":
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page())
    print(target.relative_to(ROOT))
