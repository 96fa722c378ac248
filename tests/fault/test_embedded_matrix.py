"""The crash matrix of the embedded engine: a kill at every place where it writes what recovery reads, then a start with
the same command.

A place is a kind of file operation and the functions that ask for it. They are found while the job runs, also those
that only a start after a failure comes to. The union of results equals that of a life without failures, row for row.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from eddyline.connectors.results.output import result_files
from tests.fault.embedded_life import Life
from tests.fault.forked import Runs
from tests.fault.strike import GROWING

pytestmark = pytest.mark.fault


def lived(folder: Path, runs: Runs, how: str) -> tuple[Life, list[str]]:
    """A life that was struck at every place of its two runs, with files arriving in the middle of both; and what its
    failures said."""
    life = Life(folder, runs)
    life.first()
    said = life.walk(how, life.arrive, 40)
    life.change()
    said += life.walk(how, life.arrive, 3)
    return life, said


@pytest.mark.timeout(2400)
def test_one_life_with_a_kill_at_every_place(tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    life, _ = lived(tmp_path / "life", runs, "torn")
    places = {operation.site for operation in life.operations("walk")}
    assert len(places) == len(list((life.folder / "marks").iterdir())) > 60
    # Places that only a start after a failure comes to.
    for function in ("checkpoint._remove_all_but", "output.truncate_after"):
        assert any(site.startswith("remove < ") and f" < {function}" in site for site in places), function
    # Results left their epochs in pieces, into several files of one epoch.
    assert any(part > 1 for _, part, _ in result_files(str(life.folder / "results" / "pairs")))
    assert life.results() == wanted


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("how", ["full", pytest.param("denied", marks=pytest.mark.long)])
def test_one_life_with_a_disk_that_fails_at_every_place(
    how: str, tmp_path: Path, runs: Runs, wanted: dict[str, object]
) -> None:
    life, said = lived(tmp_path / "life", runs, how)
    assert len(said) > 40
    for words in said:
        # A job whose reports cannot be written says so, and goes on to where it fails.
        words = "".join(
            line
            for line in words.splitlines(keepends=True)
            if not line.startswith("reports of the job are not written: ")
        )
        assert (
            words.count("error:") == 1 and words.startswith("error:") and "hint:" in words and "Traceback" not in words
        )
        assert "Permission denied" in words if how == "denied" else "No space left" in words
    assert life.results() == wanted


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("ways", [("kill", "torn"), ("full once",)], ids=["killed", "full once"])
def test_the_whole_matrix(ways: tuple[str, ...], tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    """A life of its own for every place: struck where it is reached first, midway and last; in a first run and in one
    that resumes."""
    life = Life(tmp_path / "life", runs)
    life.first()
    bases = [life.kept(tmp_path / "fresh")]
    life.arrive()
    life.ends_well()
    life.change()
    bases.append(life.kept(tmp_path / "resumed"))
    cases = 0
    for base in bases:
        life.put_back(base)
        assert life.run(life.plan()) == (0, "")
        places: dict[str, list[int]] = {}
        for operation in life.operations():
            places.setdefault(operation.site, []).append(operation.number)
        for site, numbers in places.items():
            for number in {numbers[0], numbers[len(numbers) // 2], numbers[-1]}:
                kind = site.partition(" ")[0]
                for how in ways:
                    if (how == "torn" and kind != "write") or (how == "full once" and kind not in GROWING):
                        continue
                    life.put_back(base)
                    _struck(life, number, how)
                    assert life.results() == wanted, f"{base.name}: {site}, operation {number}"
                    cases += 1
        print(f"{base.name}: {len(places)} places, {cases} cases so far", flush=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_kill_before_each_name_of_a_file(tmp_path: Path, runs: Runs, wanted: dict[str, object]) -> None:
    """Files of one epoch get their names one after the other: some have them, and the others have not."""
    life = Life(tmp_path / "life", runs)
    life.first()
    base = life.kept(tmp_path / "fresh")
    assert life.run(life.plan()) == (0, "")
    numbers = [operation.number for operation in life.operations() if operation.site.startswith("rename < output.work")]
    assert len(numbers) > 20
    for number in numbers:
        life.put_back(base)
        _struck(life, number, "kill")
        assert life.results() == wanted, f"operation {number}"


def _struck(life: Life, number: int, how: str) -> None:
    """Struck at an operation, the life goes on to its end."""
    code, said = life.run(life.plan(number, how))
    # Results are written by a thread: the last operations of a run may come in another order, and be one fewer. A
    # failure of what a job can do without (a report, a mark) does not end it.
    assert code in ((0, 2) if how == "full once" else (0, -signal.SIGKILL)), f"{number}: {code} {said}"
    begun = (life.folder / "a" / "2.parquet").exists()
    life.arrive()
    life.ends_well()
    if not begun:
        life.change()
        life.arrive()
        life.ends_well()
