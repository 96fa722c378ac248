"""The stopwatch itself: turns, percentiles, memory, the result format."""

import subprocess
import sys
import time

import pytest

from bench import harness
from bench.harness import Comparison, Measure, Sample


def test_contenders_take_turns_and_warm_up_does_not_count():
    order = []
    found = harness.compare({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, warmup=1, repeats=2)
    assert order == ["a", "b"] * 3
    assert [len(measure.samples) for measure in found.measures.values()] == [2, 2]


def test_ratios_are_taken_round_by_round():
    """The machine slows down by half from round to round; a is always twice as fast."""
    samples = {"a": (1.0, 2.0, 4.0), "b": (2.0, 4.0, 8.0)}
    found = Comparison({name: Measure(name, tuple(Sample(s) for s in seconds)) for name, seconds in samples.items()})
    assert found.baseline == "a"
    assert found.ratios("b") == [2.0, 2.0, 2.0]
    assert found.ratio("a") == 1.0


def test_a_function_can_say_which_part_of_its_time_counts():
    def run():
        time.sleep(0.02)
        return Sample(7.0, 11, {"rows": 3})

    found = harness.measure("own", run, warmup=0, repeats=1)
    assert found.samples == (Sample(7.0, 11, {"rows": 3}),)
    timed = harness.measure("timed", lambda: time.sleep(0.02), warmup=0, repeats=3)
    assert timed.median >= 0.02
    assert timed.percentile(10) <= timed.median <= timed.percentile(90)


def test_peak_memory_sees_children():
    """The child holds its memory until a sample has come, however long that takes on a busy machine."""
    hold = "import sys; block = bytearray(200_000_000); sys.stdin.read()"
    with harness.PeakMemory() as memory, subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE) as child:
        until = time.monotonic() + 240
        while memory.peak <= 200_000_000 and time.monotonic() < until:
            time.sleep(0.05)
        child.communicate()
    assert memory.peak > 200_000_000


def test_peak_memory_outlives_the_process_it_watches():
    process = subprocess.Popen([sys.executable, "-c", "block = bytearray(50_000_000)"])
    with harness.PeakMemory(process.pid, interval=0.001) as memory:
        process.wait()
    assert memory.peak > 0


def test_results_are_read_as_written(tmp_path):
    found = harness.compare({"a": lambda: None}, warmup=0, repeats=2)
    path = harness.write(tmp_path / "deep" / "result.json", "nothing", found.as_json())
    record = harness.read(path)
    assert record["title"] == "nothing"
    assert record["measures"][0]["median"] == found.measures["a"].median
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["versions"]["numpy"]


def test_an_unknown_format_is_refused(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('{"format": 99}')
    with pytest.raises(ValueError, match="result format 99"):
        harness.read(path)
