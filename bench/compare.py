"""Two result files side by side.

Answer   `python -m bench.compare BEFORE AFTER` prints, for every measure that both files have, the two medians, the two
         peaks of memory and how they changed; and says when the machines differ.
Limits   Files from two runs: a small difference may be the machine's mood. For a claim, use `harness.compare`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import harness


def medians(content: object, path: str = "") -> Iterator[tuple[str, float, int]]:
    """Every measure in a result, wherever it stands: its path of names, its median seconds, its peak of memory."""
    if isinstance(content, dict):
        name = "/".join(part for part in (path, str(content.get("name", ""))) if part)
        if "median" in content and "samples" in content:
            yield name, float(content["median"]), int(content["peak_rss"])
        else:
            for key, value in content.items():
                yield from medians(
                    value, path if key in ("measures", "results") else "/".join(part for part in (name, key) if part)
                )
    elif isinstance(content, list):
        for value in content:
            yield from medians(value, path)


def side_by_side(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """The comparison as lines of text."""
    old = {name: (seconds, peak) for name, seconds, peak in medians(before)}
    new = {name: (seconds, peak) for name, seconds, peak in medians(after)}
    shared = [name for name in old if name in new]
    width = max((len(name) for name in shared), default=4)
    lines = [f"{'':{width}}  {'before s':>10} {'after s':>10} {'ratio':>7}  {'before MB':>10} {'after MB':>10}"]
    for name in shared:
        (was, was_peak), (now, now_peak) = old[name], new[name]
        lines.append(
            f"{name:{width}}  {was:10.3f} {now:10.3f} {now / was:7.2f}  {was_peak / 1e6:10.0f} {now_peak / 1e6:10.0f}"
        )
    lines += [f"only before: {name}" for name in old if name not in new]
    lines += [f"only after: {name}" for name in new if name not in old]
    lines += [f"note: {difference}" for difference in machine_differences(before, after)]
    return lines


def machine_differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    one, other = before.get("machine"), after.get("machine")
    if not isinstance(one, dict) or not isinstance(other, dict):
        return ["one of the results does not say on which machine it was measured"]
    return [f"{key} was {one.get(key)}, is {other.get(key)}" for key in one if one.get(key) != other.get(key)]


def main(arguments: Sequence[str] | None = None) -> int:
    files = list(sys.argv[1:] if arguments is None else arguments)
    if len(files) != 2 or not all(Path(file).is_file() for file in files):
        print("python -m bench.compare BEFORE.json AFTER.json", file=sys.stderr)
        return 2
    print("\n".join(side_by_side(harness.read(files[0]), harness.read(files[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
