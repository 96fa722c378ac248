"""The crash matrix on Spark: a kill at every place where Python code of driver and workers writes what recovery reads,
then a restart.

One job lives through all of them: each start of the same command is struck at further places, and continues what the
one before it left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.spark_life import Life
from tests.fault.strike import operations

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.slow]

#: Places that say, each for one kind of file, whether a part of the matrix holds; all of them are in the whole.
PART = (
    "rename < whole_file.write_whole < sealed.write_sealed < ledger.write < roster.after_batch",
    "write < whole_file.write_whole < journal.write < outbox.flush < delivery._deliver",
    "rename < whole_file.write_whole < objects.write < engines.kept < phases.step",
    "rename < whole_file.write_whole < objects.write < heads.write < conducting.parcels",
)


def sites_of(folder: Path) -> list[str]:
    """Every place at which a job that begins, goes on, and ends in order changes files, in the order of their first
    use."""
    life = Life(folder)
    for _ in range(2):
        assert life.turn(life.plan("none"))
    return list(dict.fromkeys(found.site for found in operations(life.plan().log)))


@pytest.mark.timeout(2400)
def test_a_part_of_the_matrix(tmp_path: Path) -> None:
    life = Life(tmp_path)
    plan = life.plan(*PART)
    # Five files: a second of event time passes, and a group closes.
    while life.turn(plan, files=5) is not True or set(plan.struck()) != set(PART):
        assert life.turns < 8, plan.struck()
    life.finish()
    life.check()


@pytest.mark.long
@pytest.mark.timeout(14400)
def test_the_whole_matrix(tmp_path: Path) -> None:
    sites = sites_of(tmp_path / "count")
    assert len(sites) > 100
    life = Life(tmp_path / "life")
    whole = life.plan(*sites)

    def left() -> list[str]:
        struck = set(whole.struck())
        return [site for site in sites if site not in struck]

    # Preparations end before Spark starts: their places are struck one after the other, without it.
    while not life.prepare(life.plan(*left())):
        assert life.turns <= len(sites)
    print(f"{len(sites) - len(left())} of {len(sites)} places struck before Spark starts", flush=True)
    in_vain = 0
    while rest := left():
        # The first place of the driver ends the start; workers are struck at one place after the other.
        life.turn(life.plan(*rest), files=2)
        in_vain = 0 if len(left()) < len(rest) else in_vain + 1
        print(f"start {life.turns}: {len(left())} places left", flush=True)
        assert in_vain < 3, f"not reached: {rest}"
    life.finish()
    life.check()
    print(f"{len(sites)} places, {life.turns} starts, {life.files} files of each stream", flush=True)
