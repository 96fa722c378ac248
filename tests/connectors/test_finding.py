"""New files of a path: each once, in name order, for one stat per folder where nothing has changed."""

import os

import pytest

from eddyline.connectors.files.finding import Finder, check_path, list_files
from eddyline.errors import SourceProblem
from eddyline.tuning import InputTuning

RESTLESS = InputTuning(longest_pause=0.0)


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def look(finder):
    return [file.name for file in finder.new_files()]


def test_each_file_comes_once_also_one_inside_the_order_of_names(tmp_path):
    make(tmp_path, "a/3.csv", "1.csv", "9.csv")
    finder = Finder(str(tmp_path), tuning=RESTLESS)
    assert look(finder) == ["1.csv", "9.csv", "a/3.csv"] and look(finder) == []
    make(tmp_path, "5.csv", "a/b/c/1.csv", "_hidden", "day=1/_x=1/2.csv")
    assert look(finder) == ["5.csv", "a/b/c/1.csv", "day=1/_x=1/2.csv"] and look(finder) == []


def test_what_goes_and_comes_again_is_found_again(tmp_path):
    make(tmp_path, "a/1.csv", "2.csv")
    finder = Finder(str(tmp_path), tuning=RESTLESS)
    assert look(finder) == ["2.csv", "a/1.csv"]
    (tmp_path / "a/1.csv").unlink()
    (tmp_path / "a").rmdir()
    (tmp_path / "2.csv").unlink()
    assert look(finder) == []
    make(tmp_path, "a/1.csv", "2.csv")
    assert look(finder) == ["2.csv", "a/1.csv"]


def test_a_folder_that_becomes_a_file(tmp_path):
    make(tmp_path, "a/1.csv")
    finder = Finder(str(tmp_path), tuning=RESTLESS)
    assert look(finder) == ["a/1.csv"]
    (tmp_path / "a/1.csv").unlink()
    (tmp_path / "a").rmdir()
    make(tmp_path, "a")
    assert look(finder) + look(finder) == ["a"]


def test_where_nothing_changes_a_look_is_one_stat_per_folder(tmp_path, monkeypatch):
    make(tmp_path, *(f"{folder}/{number}.csv" for folder in "abc" for number in range(50)))
    finder = Finder(str(tmp_path), tuning=InputTuning(longest_pause=0.0, certain_seconds=0.0))
    assert len(finder.new_files()) == 150
    calls = {"stat": 0, "list": 0}
    stat, listdir = os.stat, os.listdir
    monkeypatch.setattr(os, "stat", lambda *a, **k: calls.__setitem__("stat", calls["stat"] + 1) or stat(*a, **k))
    monkeypatch.setattr(os, "listdir", lambda *a: calls.__setitem__("list", calls["list"] + 1) or listdir(*a))
    assert finder.new_files() == []
    assert calls["list"] == 0 and calls["stat"] <= 5  # four folders, and whether the path is one


def test_a_change_within_the_grain_of_the_clock_is_not_missed(tmp_path):
    make(tmp_path, "1.csv")
    finder = Finder(str(tmp_path), tuning=RESTLESS)
    assert look(finder) == ["1.csv"]
    before = os.stat(tmp_path).st_mtime_ns
    make(tmp_path, "2.csv")
    os.utime(tmp_path, ns=(before, before))
    assert look(finder) == ["2.csv"]


def test_links_that_lead_back_are_not_followed(tmp_path):
    data = tmp_path / "data"
    make(data, "1.csv", "a/2.csv", "b/3.csv")
    make(tmp_path, "elsewhere/4.csv")
    (data / "loop").symlink_to(data)
    (data / "a" / "up").symlink_to("../..")
    (data / "root").symlink_to("/")
    (data / "a" / "b").symlink_to(data / "b")
    (data / "b" / "a").symlink_to(data / "a")
    (data / "other").symlink_to(tmp_path / "elsewhere")
    found = [file.name for file in list_files(str(data))]
    assert [name for name in found if name.count("/") < 2] == ["1.csv", "a/2.csv", "b/3.csv", "other/4.csv"]
    # Two links that lead to each other's folders are followed once each.
    assert set(found) - {"1.csv", "a/2.csv", "b/3.csv", "other/4.csv"} == {"a/b/3.csv", "b/a/2.csv"}


def test_what_is_no_regular_file_is_found_and_as_a_path_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "nowhere")
    assert [file.name for file in list_files(str(tmp_path))] == ["dangling.csv", "pipe.csv"]
    assert [file.name for file in list_files(str(tmp_path / "*.csv"))] == ["dangling.csv", "pipe.csv"]
    with pytest.raises(SourceProblem, match="neither a file nor a folder"):
        check_path(str(tmp_path / "pipe.csv"), "stream s")


def test_patterns_part_by_part(tmp_path, monkeypatch):
    make(tmp_path, "2024/a.csv", "2024/x/b.csv", "2025/a.csv", "2025/a.json", "c.csv")
    finder = Finder(str(tmp_path / "2024" / "**" / "*.csv"))
    assert look(finder) == ["a.csv", "x/b.csv"]
    make(tmp_path, "2024/y/z/d.csv", "2025/e.csv")
    assert look(finder) == ["y/z/d.csv"]
    assert [f.name for f in list_files(str(tmp_path / "20*" / "[ab].csv"))] == ["2024/a.csv", "2025/a.csv"]
    monkeypatch.chdir(tmp_path)
    assert [(f.name, f.path) for f in list_files("*.csv")] == [("c.csv", "./c.csv")]


def test_a_single_file_comes_once(tmp_path):
    make(tmp_path, "1.csv")
    finder = Finder(str(tmp_path / "1.csv"))
    assert look(finder) == ["1.csv"] and look(finder) == []
    assert finder.path_of("1.csv") == str(tmp_path / "1.csv")
