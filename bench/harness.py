"""How we measure: warm-up, repeats, contenders taking turns, peak memory, the machine, one result format.

Answer   `measure` times one function; `compare` lets several take turns in one run, so that a ratio is not made of two
         moods of a machine; `write` and `read` keep what was found, with the machine, as one JSON file.
State    A thread samples the resident memory of this process and its children, or of a given process, while a sample
         runs.
Limits   A peak shorter than the sampling interval is not seen. Where the system reports no shares, common memory counts
         for each process.
Reading  bench/README.md
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

FORMAT = 1
PACKAGES = ("numpy", "pyarrow", "numba", "duckdb", "pyspark", "sqlglot")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. A measured function may return one itself, when only a part of its time should count."""

    seconds: float
    peak_rss: int = 0
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measure:
    """All runs of one contender, in the order in which they ran."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def seconds(self) -> list[float]:
        return [sample.seconds for sample in self.samples]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def peak_rss(self) -> int:
        return max(sample.peak_rss for sample in self.samples)

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.seconds, percent))

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "median": self.median,
            "p10": self.percentile(10),
            "p90": self.percentile(90),
            "best": min(self.seconds),
            "peak_rss": self.peak_rss,
            "samples": [asdict(sample) for sample in self.samples],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contenders that took turns; the first is the baseline of the ratios."""

    measures: dict[str, Measure]
    #: The machine's load just before the first run: if it is not small, others were working too, and times deserve less
    #: trust than ratios.
    load_before: float = 0.0

    @property
    def baseline(self) -> str:
        return next(iter(self.measures))

    def ratios(self, name: str) -> list[float]:
        """Round by round, how many times as long as the baseline, for the rounds that both have."""
        return [
            mine / theirs
            for mine, theirs in zip(self.measures[name].seconds, self.measures[self.baseline].seconds, strict=False)
        ]

    def ratio(self, name: str) -> float:
        return statistics.median(self.ratios(name))

    def after(self, earlier: Mapping[str, Any], others: bool = False) -> Comparison:
        """The rounds of an earlier record, then these. A contender that only one of them has makes them two different
        runs, unless `others`
        are allowed.

        The load that counts is the larger one.
        """
        kept = {
            measure["name"]: tuple(Sample(**sample) for sample in measure["samples"]) for measure in earlier["measures"]
        }
        if set(kept) != set(self.measures) and not others:
            raise ValueError(
                f"the earlier run has {', '.join(kept)}, this one {', '.join(self.measures)}: its rounds cannot be added to"
            )
        fresh = {name: measure.samples for name, measure in self.measures.items()}
        together = {name: Measure(name, kept.get(name, ()) + fresh.get(name, ())) for name in {**kept, **fresh}}
        return Comparison(together, max(self.load_before, float(earlier["load_before"])))

    def as_json(self) -> dict[str, object]:
        return {
            "baseline": self.baseline,
            "load_before": self.load_before,
            "measures": [measure.as_json() for measure in self.measures.values()],
            "ratios": {name: {"median": self.ratio(name), "rounds": self.ratios(name)} for name in self.measures},
        }


class PeakMemory:
    """The largest resident memory of a process and all its children while the block runs, pages that they share counted
    once.

    >>> with PeakMemory() as memory:
    ...     block = bytearray(1000)
    >>> memory.peak > len(block)
    True
    """

    #: Sampling slows the sampled process down: it may take one part in this many of the time.
    SHARE = 50

    def __init__(self, pid: int | None = None, interval: float = 0.1):
        self.peak = 0
        self._process = psutil.Process(pid or os.getpid())
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._sample()
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        cost = 0.0
        while not self._over.wait(max(self._interval, self.SHARE * cost)):
            began = time.perf_counter()
            self._sample()
            cost = time.perf_counter() - began

    def _sample(self) -> None:
        try:
            family = [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        total = 0
        for process in family:
            try:
                total += _resident(process)
            except psutil.NoSuchProcess:
                # It ended between the listing and the question: it holds nothing now.
                continue
        self.peak = max(self.peak, total)


def _resident(process: psutil.Process) -> int:
    """A process's share of memory: forked workers live on pages of their parent, which plain RSS would count for
    each."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        # Not Linux, or not ours to read.
        return int(process.memory_info().rss)
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def measure(name: str, run: Callable[[], Sample | None], *, warmup: int = 1, repeats: int = 5) -> Measure:
    """Time a function: `warmup` runs that do not count, then `repeats` that do."""
    return compare({name: run}, warmup=warmup, repeats=repeats).measures[name]


def compare(contenders: Mapping[str, Callable[[], Sample | None]], *, warmup: int = 1, repeats: int = 5) -> Comparison:
    """Let the contenders take turns, A B C A B C …, so that whatever slows the machine down slows all of them."""
    load = round(os.getloadavg()[0], 2)
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for turn in range(warmup + repeats):
        for name, run in contenders.items():
            sample = take(run)
            if turn >= warmup:
                samples[name].append(sample)
    return Comparison({name: Measure(name, tuple(taken)) for name, taken in samples.items()}, load)


def take(run: Callable[[], Sample | None]) -> Sample:
    """One run with its time and peak memory; what the function says itself of either has precedence."""
    gc.collect()
    with PeakMemory() as memory:
        start = time.perf_counter()
        own = run()
        seconds = time.perf_counter() - start
    if own is None:
        return Sample(seconds, memory.peak)
    return Sample(own.seconds, own.peak_rss or memory.peak, own.details)


def machine() -> dict[str, object]:
    """What a reader needs to know of the machine: processor, cores, memory, system, versions. No names, no paths."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": _processor(),
        "cores": len(psutil.Process().cpu_affinity())
        if hasattr(psutil.Process, "cpu_affinity")
        else psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": _java(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _java() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except FileNotFoundError:
        return "not found"
    return said.splitlines()[0].strip() if said else "unknown"


def write(path: str | Path, title: str, content: Mapping[str, object]) -> Path:
    """Keep a result: what was measured, on which machine, when."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    record = {"format": FORMAT, "title": title, "when": when, "machine": machine(), **content}
    target.write_text(json.dumps(record, indent=2) + "\n")
    return target


def read(path: str | Path) -> dict[str, object]:
    record = json.loads(Path(path).read_text())
    if record.get("format") != FORMAT:
        raise ValueError(f"{Path(path).name} has result format {record.get('format')}, this harness reads {FORMAT}")
    return record
