"""The list of planted faults fits the code: `python -m tests.planted` can plant every one of them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.planted.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_one_place(fault: Fault) -> None:
    source = (ROOT / "src/eddyline" / fault.file).read_text()
    assert source.count(fault.old) == 1, f"{fault.file} has changed: give the fault {fault.name!r} its new text"
    assert fault.old != fault.new
    # A fault is a wrong program, not one that cannot be read.
    ast.parse(source.replace(fault.old, fault.new))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_of_a_fault_are_there(fault: Fault) -> None:
    assert fault.tests
    for one in fault.tests:
        file, _, name = one.partition("::")
        source = (ROOT / "tests" / file).read_text()
        assert not name or f"def {name}(" in source, f"{file} has no test {name}"


def test_there_are_thirty_faults_with_names_of_their_own() -> None:
    assert len(FAULTS) >= 30
    assert Counter(fault.name for fault in FAULTS).most_common(1)[0][1] == 1
