"""`eddyline constraints`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eddyline.cli.__main__ import main
from eddyline.language import bind_script

STREAM = "CREATE STREAM s (k BIGINT, type STRING, ts TIMESTAMP) WITH (time = 'ts');"


def tree(tmp_path: Path) -> str:
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"sequence": ["Receive", {"choice": ["Use local", "Remote"]}, "Finish"]}))
    return str(path)


def test_one_constraint_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["constraints", tree(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"BEGIN(Receive)", "END(Finish)", "EXCLUSIVE(Remote, 'Use local')", "PRIOR(Receive, Remote)"} <= set(lines)


def test_a_whole_statement_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["constraints", tree(tmp_path), "--on", "s TYPE type PARTITION BY k"]) == 0
    job = bind_script(STREAM + capsys.readouterr().out)
    assert "END(Finish)" in map(str, job.constraints[0].rules)


def test_words_of_the_language_stand_in_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["END", "And", "NOT", "it's", "a b", "7", "select", "IF", "BEGIN"]
    path = tmp_path / "words.json"
    path.write_text(json.dumps({"sequence": names}))
    assert main(["constraints", str(path), "--on", "s TYPE type PARTITION BY k"]) == 0
    rules = bind_script(STREAM + capsys.readouterr().out).constraints[0].rules
    assert {name for rule in rules for name in rule.types} == set(names)


def test_mistakes_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["constraints", str(tmp_path / "none.bpmn")]) == 2
    assert "cannot be read" in capsys.readouterr().err
