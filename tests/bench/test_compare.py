"""Two result files side by side."""

from bench import compare, harness


def result(tmp_path, name, seconds):
    found = {"measures": [harness.Measure("join", (harness.Sample(seconds, 2_000_000),)).as_json()]}
    return harness.write(tmp_path / name, name, found)


def test_medians_memory_and_ratio_are_shown(tmp_path, capsys):
    before, after = result(tmp_path, "before.json", 2.0), result(tmp_path, "after.json", 0.5)
    assert compare.main([str(before), str(after)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("join")]
    assert line.split() == ["join", "2.000", "0.500", "0.25", "2", "2"]


def test_what_only_one_file_has_and_another_machine_are_named():
    one = {"machine": {"cores": 2}, "measures": [harness.Measure("a", (harness.Sample(1.0),)).as_json()]}
    other = {"machine": {"cores": 8}, "measures": [harness.Measure("b", (harness.Sample(1.0),)).as_json()]}
    lines = compare.side_by_side(one, other)
    assert lines[1:] == ["only before: a", "only after: b", "note: cores was 2, is 8"]


def test_wrong_arguments_are_explained(capsys):
    assert compare.main(["nowhere.json"]) == 2
    assert "BEFORE.json AFTER.json" in capsys.readouterr().err
