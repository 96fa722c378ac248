"""Which files a path means, and in which order."""

import pytest

from eddyline.connectors.files.finding import check_path, list_files
from eddyline.connectors.files.listing import required_path
from eddyline.errors import SourceProblem


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def names(path):
    return [f.name for f in list_files(str(path))]


def test_a_folder_is_read_with_its_subfolders_in_name_order(tmp_path):
    make(tmp_path, "b.csv", "a/2.csv", "a/10.csv", "c.csv")
    assert names(tmp_path) == ["a/10.csv", "a/2.csv", "b.csv", "c.csv"]


def test_hidden_files_are_not_data(tmp_path):
    make(tmp_path, "_SUCCESS", ".a.csv.tmp", "_temporary/0.csv", "day=1/.x", "day=1/0.csv")
    assert names(tmp_path) == ["day=1/0.csv"]


def test_a_glob_and_a_single_file(tmp_path):
    make(tmp_path, "2024/a.csv", "2024/b.json", "2025/a.csv", "odd[1].csv")
    assert names(tmp_path / "*" / "*.csv") == ["2024/a.csv", "2025/a.csv"]
    assert names(tmp_path / "2024" / "a.csv") == ["a.csv"]
    assert names(tmp_path / "odd[1].csv") == ["odd[1].csv"]
    assert names(tmp_path / "**" / "a.csv") == ["2024/a.csv", "2025/a.csv"]


def test_partition_folders_give_columns(tmp_path):
    make(tmp_path, "day=2024-01-01/shop=a%2Fb/0.csv", "day=__HIVE_DEFAULT_PARTITION__/0.csv")
    assert [f.partitions for f in list_files(str(tmp_path))] == [{"day": "2024-01-01", "shop": "a/b"}, {"day": None}]


def test_a_path_that_means_nothing_is_refused_before_the_start(tmp_path):
    with pytest.raises(SourceProblem, match="does not exist") as missing:
        check_path(str(tmp_path / "nowhere"), "stream s")
    assert missing.value.hint
    with pytest.raises(SourceProblem, match="no file matches"):
        check_path(str(tmp_path / "*.csv"), "stream s")
    with pytest.raises(SourceProblem, match="does not exist") as relative:
        check_path("surely/not/here", "stream s")
    assert "working directory" in relative.value.hint
    with pytest.raises(SourceProblem, match="has no path"):
        required_path({}, "stream s")


def test_an_empty_folder_is_an_empty_stream_and_a_followed_glob_may_wait(tmp_path):
    check_path(str(tmp_path), "stream s")
    check_path(str(tmp_path / "*.csv"), "stream s", follow=True)
    assert names(tmp_path) == []
