"""Event patterns as users meet them: violations that end a job, patterns and constraints in the shell."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from eddyline import Session
from eddyline.cli.__main__ import main
from eddyline.cli.shell import Shell
from eddyline.errors import CheckpointProblem, DataProblem

BEGIN = datetime(2024, 1, 1)
STREAM = "CREATE STREAM orders (id BIGINT, type STRING, price BIGINT, ts TIMESTAMP) WITH (time = 'ts'{options});"
RULES = "CREATE CONSTRAINTS rules ON orders TYPE type PARTITION BY id (PRIOR(Quote, Send), END(Done));"
QUERY = "CREATE QUERY q AS EVENT SEQ(Quote[price > 5] a, Send b) FROM orders TYPE type PARTITION BY id RETURN id, a.price AS price;"


def rows(*events: tuple[int, str, int]) -> list[dict[str, object]]:
    return [
        {"id": i, "type": t, "price": p, "ts": BEGIN + timedelta(seconds=at)} for at, (i, t, p) in enumerate(events)
    ]


def test_a_violation_ends_the_job_where_it_is_an_error() -> None:
    with pytest.raises(DataProblem) as found, Session() as session:
        session.execute(f"SET on_violation = 'error'; {STREAM.format(options='')} {RULES} {QUERY}")
        session.push("orders", rows((1, "Quote", 9), (1, "Send", 0), (1, "Quote", 7), (2, "Quote", 1)))
        session.run(once=True)
    assert "breaks a constraint" in str(found.value)
    assert "violation: PRIOR(Quote, Send), trace 1" in str(found.value.detail)
    assert "on_violation = 'dead-letter'" in str(found.value.hint)


def test_a_violation_is_a_dead_letter_without_the_setting() -> None:
    with Session() as session:
        session.execute(f"{STREAM.format(options='')} {RULES} {QUERY}")
        session.push("orders", rows((1, "Quote", 9), (1, "Send", 0), (1, "Quote", 7), (1, "Send", 0), (1, "Done", 0)))
        session.run(once=True)
        assert [row["price"] for row in session.queries["q"].table().to_pylist()] == [9, 9]
        (letter,) = session.dead_letters("orders").to_pylist()
        assert letter["_reason"] == "violation: PRIOR(Quote, Send), trace 1"


def events_file(folder: Path) -> None:
    lines = ["id,type,price,ts"]
    lines += [
        f"{r['id']},{r['type']},{r['price']},{r['ts']}" for r in rows((1, "Quote", 9), (1, "Send", 0), (1, "Quote", 7))
    ]
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")


def test_the_command_ends_with_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    events_file(tmp_path)
    stream = STREAM.format(options=", format = 'csv', path = 'orders.csv'")
    (tmp_path / "job.sql").write_text(f"SET on_violation = 'error'; {stream} {RULES} {QUERY}")
    assert main(["run", "job.sql", "--once", "--quiet", "--out", "out"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: an event of stream orders breaks a constraint")
    assert "Traceback" not in said


def test_patterns_and_constraints_in_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    events_file(tmp_path)
    output = io.StringIO()
    shell = Shell(Console(file=output, width=200))
    for line in (STREAM.format(options=", format = 'csv', path = 'orders.csv'"), RULES, QUERY.partition(" AS ")[2]):
        assert shell.feed(line)
    said = output.getvalue()
    assert "price" in said and "9" in said
    assert "error" not in said


def test_rules_do_not_change_under_a_checkpoint(tmp_path: Path) -> None:
    workflow, checkpoint = tmp_path / "order.json", str(tmp_path / "checkpoint")
    rules = f"CREATE CONSTRAINTS rules ON orders TYPE type PARTITION BY id FROM WORKFLOW '{workflow}';"

    def run(tasks: list[str], before: str, *events: tuple[int, str, int]) -> int:
        """Runs the job over more events; the number of its results."""
        workflow.write_text(json.dumps({"sequence": tasks}))
        with Session(checkpoint=checkpoint) as session:
            session.execute(f"{before} {STREAM.format(options='')} {rules} {QUERY}")
            session.push(
                "orders",
                [
                    row | {"ts": BEGIN + timedelta(minutes=len(events), seconds=n)}
                    for n, row in enumerate(rows(*events))
                ],
            )
            session.run(once=True)
            return len(session.queries["q"].table())

    tasks = ["Quote", "Check", "Send", "Done"]
    assert run(tasks, "", (1, "Quote", 9)) == 0
    for other, before in ((["Quote", "Send", "Check", "Done"], ""), (tasks, "SET constraints = 'off';")):
        with pytest.raises(CheckpointProblem, match="is not the one in the checkpoint") as found:
            run(other, before, (1, "Check", 0), (1, "Send", 0))
        assert "rules of the constraints: rules " in str(found.value) and "workflow's file has changed" in str(
            found.value.hint
        )
    assert run(tasks, "SET constraints = 'check';", (1, "Check", 0), (1, "Send", 0)) == 1
