"""What fuzzing found, and what it begins with, again: no input ends the process or is read wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_of_a_format(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert len(inputs) >= 3
    for path in inputs:
        TARGETS[name](path.read_bytes())
