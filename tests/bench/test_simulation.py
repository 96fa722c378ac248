"""The simulation of shared window joins against the paper's formulas and a plain twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.simulation.model import Costs, Played, Work, play, work

NAMES = ("lwo", "swf", "mqt")


def at_once(rows: int, sizes: list[int], seconds: float) -> Work:
    """So many rows of one stream at one instant; every row of the other joins; S_i rows lie in window i."""
    most = sizes[-1]
    side = np.array([1] * most + [0] * rows)
    ts = np.concatenate([np.arange(most) - most + 0.5, np.zeros(rows)])
    return work(side, ts, np.zeros(most + rows, np.int64), sizes, first=most, costs=Costs(per_row=seconds))


def test_response_times_are_those_of_the_formulas() -> None:
    """Equations (1) and (2), to rounding."""
    m, tp, sizes = 50, 1e-6, [100, 500, 1500, 3000]
    job = at_once(m, sizes, tp)
    before = np.array([0, *sizes[:-1]])
    here = np.array(sizes)
    assert play(job, "lwo").mean == pytest.approx(tp / 2 * ((here + 1) + (m - 1) * sizes[-1]), rel=1e-9)
    assert play(job, "swf").mean == pytest.approx(m * before * tp + (m + 1) / 2 * (here - before) * tp, rel=1e-9)


def random_job(seed: int, counted: bool, buckets: int) -> tuple[Work, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    rows, first = 160, 60
    side = rng.integers(0, 2, rows)
    ts = np.cumsum(rng.choice([0.0, 0.1, 0.5, 2.0], rows))
    ts -= ts[first]
    key = rng.integers(0, 4, rows)
    windows = [1, 3, 4, 9, 20] if counted else [0.5, 1.0, 4.0, 9.0, 30.0]
    job = work(side, ts, key, windows, first=first, counted=counted, buckets=buckets, costs=Costs(0.01, 0.004, 0.02))
    return job, {"side": side, "ts": ts, "key": key}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("buckets", [1, 3, 7])
def test_the_work_is_what_a_plain_loop_finds(counted: bool, buckets: int) -> None:
    job, rows = random_job(5, counted, buckets)
    side, ts, key = rows["side"], rows["ts"], rows["key"]
    first = len(ts) - len(job.arrival)
    matches = np.diff(job.starts).reshape(job.cost.shape)
    for t in range(first, len(ts)):
        expected, visited = [0] * 5, [0] * 5
        older = [c for c in range(t) if side[c] != side[t]]
        for place, c in enumerate(reversed(older)):
            age = place + 1 if counted else ts[t] - ts[c]
            strip = int(np.searchsorted(job.windows, age))
            if strip < 5 and key[c] % buckets == key[t] % buckets:
                visited[strip] += 1
                expected[strip] += key[c] == key[t]
        assert matches[t - first].tolist() == expected
        assert job.cost[t - first] == pytest.approx(
            [0.01 + 0.004 * v + 0.02 * e for v, e in zip(visited, expected, strict=True)]
        )


def released_plainly(job: Work, played: Played, early: bool) -> tuple[list[list[tuple[int, float]]], list[float]]:
    """Per window (row, release) of every result, in the order of release: the same units, all results held one by
    one."""
    rows, windows = job.cost.shape
    now = 0.0
    out: list[list[tuple[int, float]]] = [[] for _ in range(windows)]
    made: dict[int, list[tuple[int, float]]] = {t: [] for t in range(rows)}
    finished = [0] * windows
    sent: list[set[tuple[int, int]]] = [set() for _ in range(windows)]
    begun = []
    for t, level in played.units.tolist():
        now = max(now, job.arrival[t])
        begun.append(now)
        a, b = job.starts[t * windows + level], job.starts[t * windows + level + 1]
        made[t] += [(k, now + job.ready[k]) for k in range(a, b)]
        strip_of = {
            k: s for s in range(windows) for k in range(job.starts[t * windows + s], job.starts[t * windows + s + 1])
        }
        ended = now + job.cost[t, level]
        for q in range(level, windows):
            for k, ready in made[t]:
                if early and finished[q] == t and (t, k) not in sent[q] and strip_of[k] <= q:
                    sent[q].add((t, k))
                    out[q].append((t, max(ready, now)))
        finished[level] += 1
        if not early:
            out[level] += [(t, ended) for _ in range(job.starts[t * windows], job.starts[t * windows + level + 1])]
        else:
            after = t + 1
            for k, _ in made.get(after, []):
                strip = next(s for s in range(windows) if k < job.starts[after * windows + s + 1])
                if strip <= level and (after, k) not in sent[level]:
                    sent[level].add((after, k))
                    out[level].append((after, ended))
        now = ended
    return out, begun


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counted", [False, True])
def test_the_simulation_is_its_plain_twin(name: str, seed: int, counted: bool) -> None:
    job, _ = random_job(seed, counted, 3)
    played = play(job, name)
    out, begun = released_plainly(job, played, name != "swf")
    matches = np.diff(job.starts).reshape(job.cost.shape)
    for q, results in enumerate(out):
        rows = [t for t, _ in results]
        responses = np.array([when - job.arrival[t] for t, when in results])
        assert rows == sorted(rows), "results come in the order of their newest rows"
        assert np.bincount(rows, minlength=len(matches)).tolist() == matches[:, : q + 1].sum(axis=1).tolist()
        assert played.results[q] == len(results)
        assert played.mean[q] == pytest.approx(responses.mean())
        assert played.worst[q] == pytest.approx(responses.max())
        assert played.p95[q] == pytest.approx(np.sort(responses)[int(np.ceil(0.95 * len(responses))) - 1], rel=2e-3)
    assert all(b - a >= -1e-9 for a, b in pairwise(begun))


@pytest.mark.parametrize("name", NAMES)
def test_the_server_never_rests_while_there_is_work(name: str) -> None:
    job, _ = random_job(9, False, 3)
    ends = {other: play(job, other).ended for other in NAMES}
    assert ends[name] == pytest.approx(ends["lwo"])
    assert sorted(map(tuple, play(job, name).units.tolist())) == [(t, s) for t in range(100) for s in range(5)]


def test_small_windows_do_not_wait_for_large_ones_under_mqt() -> None:
    job = at_once(40, [10, 50, 3000], 1e-5)
    lwo, mqt = play(job, "lwo"), play(job, "mqt")
    assert lwo.mean[0] > 50 * mqt.mean[0]
    assert mqt.overall([1, 1, 1]) < 0.6 * lwo.overall([1, 1, 1])
    assert lwo.output_buffer == 0
    assert mqt.scheduling_buffer == 40


def entries_plainly(job: Work, played: Played, early: bool) -> int:
    """The most rows with results that some window has not released, counted one by one after every unit."""
    rows, windows = job.cost.shape
    matches = np.diff(job.starts).reshape(rows, windows)
    reached = [0] * rows
    most = 0
    for t, level in played.units.tolist():
        reached[t] = level + 1
        oldest = next((r for r in range(rows) if reached[r] < windows), rows)
        # Results of the oldest row that has not finished go out as they are made.
        waiting = [
            r for r in range(oldest + early, rows) if 0 < reached[r] < windows and matches[r, : reached[r]].any()
        ]
        most = max(most, len(waiting))
    return most


@pytest.mark.parametrize("name", ["swf", "mqt"])
@pytest.mark.parametrize("seed", range(4))
def test_an_output_entry_is_a_row_with_results_not_yet_released(name: str, seed: int) -> None:
    job, _ = random_job(seed, False, 3)
    played = play(job, name)
    assert played.output_rows == entries_plainly(job, played, name == "mqt")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("room", [0, 3, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_small_output_buffer_costs_work_and_no_results(name: str, room: int, seed: int) -> None:
    job, _ = random_job(seed, False, 3)
    free, bounded = play(job, name), play(job, name, room=room)
    # SWF holds back all results of the row that it works on.
    assert bounded.output_buffer <= room or (name == "swf" and bounded.output_buffer <= most_results_of_a_row(job))
    assert bounded.results.tolist() == free.results.tolist()
    assert bounded.ended >= free.ended * (1 - 1e-9)
    assert name != "lwo" or bounded.mean.tolist() == free.mean.tolist()


def most_results_of_a_row(job: Work) -> int:
    return int(np.diff(job.starts[:: len(job.windows)]).max())


def test_a_row_whose_few_results_do_not_fit_looks_again() -> None:
    """Two rows at once, windows of one and ten rows that all join, a second each, and no room: the second row's first
    strip is
    looked at when it is answered for the small window, and again for the large one."""
    job = at_once(2, [1, 10], 1.0)
    free, bounded = play(job, "mqt"), play(job, "mqt", room=0)
    assert free.units.tolist() == bounded.units.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    # Small window: made after one and two seconds. Large one: the first row's after 1 and from 3 on, the second row's
    # first one as that row has finished, after 11; looking again all ten come from 12 on.
    assert free.mean.tolist() == pytest.approx([1.5, (1 + sum(range(3, 12)) + 11 + sum(range(12, 21))) / 20])
    assert bounded.mean.tolist() == pytest.approx([1.5, (1 + sum(range(3, 12)) + sum(range(12, 22))) / 20])
    assert (free.ended, bounded.ended) == pytest.approx((20.0, 21.0))
    assert (free.output_buffer, bounded.output_buffer) == (1, 0)


def test_where_many_results_do_not_fit_the_oldest_row_goes_first() -> None:
    """The same with a small window that is a third of the large one: nothing is looked at twice, the order is that of
    LWO."""
    job = at_once(2, [1, 3], 1.0)
    free, bounded = play(job, "mqt"), play(job, "mqt", room=0)
    assert free.units.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert bounded.units.tolist() == play(job, "lwo").units.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert bounded.ended == pytest.approx(free.ended)
    assert (free.output_buffer, bounded.output_buffer) == (1, 0)
