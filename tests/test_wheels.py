"""Which Pythons are promised, and what is left out where there is no wheel. `make wheels` asks pip."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement

from tests.wheels import ROOT, SOURCES, packages, pythons


def test_all_places_name_the_same_pythons() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert (
        re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
        == pythons()
        == ["3.11", "3.12", "3.13", "3.14"]
    )
    for page in ("README.md", "docs/index.md", "Makefile"):
        assert f"Python {pythons()[0]} to {pythons()[-1]}" in (ROOT / page).read_text(), page


def test_a_package_is_left_out_by_the_same_marker_everywhere() -> None:
    """In the lock, and in the extra that brings it to users."""
    extra = re.search(r'^sketches = \["(.*)"\]', Path(ROOT, "pyproject.toml").read_text(), re.M)
    assert extra is not None
    for python in pythons():
        marker = Requirement(extra[1]).marker
        assert marker is not None
        assert marker.evaluate({"python_version": python}) == ("datasketches" in {one.name for one in packages(python)})
    assert {one.name for one in packages("3.13")} - {one.name for one in packages("3.14")} == {"datasketches"}
    assert SOURCES & {one.name for one in packages("3.11")} == set()
