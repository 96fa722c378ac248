"""The shell on a real pseudo-terminal: live results, the history, completion and colours."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eddyline.cli.interactive.editor import COLOURS, coloured, completions, is_complete
from eddyline.cli.interactive.keys import is_ended, single_keys
from tests import forks
from tests.cli.test_shell_words import typed

HEAD = "item,price,ts\n"
#: Seconds.
PATIENCE = 120
UP, CONTROL_C, TAB = b"\x1b[A", b"\x03", b"\t"
#: What a terminal obeys and does not show.
_ORDERS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A shell in a terminal of 100 columns."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(folder / "state")}
        self.process = forks.Command(
            [str(Path(sys.executable).with_name("eddyline")), "shell", *arguments],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(follower)
        self.said = b""

    def type(self, keys: bytes) -> None:
        """Forget what was said before, and press keys."""
        self.said = b""
        os.write(self._leader, keys)

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in _ORDERS.sub(b"", self.said):
            ready, _, _ = select.select([self._leader], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text} does not come; the last that came is {self.said[-500:]!r}"
            self.said += os.read(self._leader, 65_536)

    def leave(self) -> int:
        self.type(b"exit\r")
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(self._leader, 65_536):
                pass
        return self.process.wait(timeout=PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._leader)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "bids").mkdir()
    (tmp_path / "bids" / "0.csv").write_text(HEAD + "1,10.5,2024-01-01 00:00:00\n2,200,2024-01-01 00:00:01\n")
    opened = Terminal(tmp_path, "bids")
    try:
        opened.until("eddyline>")
        yield opened
    finally:
        opened.close()


def test_results_are_shown_as_they_come(terminal: Terminal, tmp_path: Path) -> None:
    """Results of a file that comes later are shown; q and Ctrl-C end the query and not the shell."""
    statement = b"SELECT item, SUM(price) AS total FROM bids [RANGE 1 HOUR] GROUP BY item EMIT ON CHANGE;\r"
    for number, end in ((1, b"q"), (2, CONTROL_C)):
        terminal.type(statement)
        terminal.until("q or Ctrl-C ends the query")
        terminal.until("10.5")
        later = tmp_path / "bids" / f"{number}.csv"
        whole = tmp_path / "part"
        whole.write_text(
            HEAD + f"{number}7,{number}777.25,2024-01-01 00:01:0{number}\n8,1,2024-01-01 00:01:0{number + 1}\n"
        )
        whole.rename(later)
        terminal.until(f"{number}777.25")
        terminal.type(end)
        terminal.until("the query has ended: ")
        terminal.until("eddyline>")
    terminal.type(b"SELECT 40 + 2;\r")
    terminal.until("42")
    assert terminal.leave() == 0


@pytest.mark.parametrize(("key", "ends"), [(b"q", True), (CONTROL_C, True), (b"x", False)])
def test_control_c_is_a_key_and_no_signal(key: bytes, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    with open(follower, encoding="ascii") as keys:
        monkeypatch.setattr(sys, "stdin", keys)
        before = termios.tcgetattr(follower)
        with single_keys() as keyboard:
            assert not is_ended(keyboard, 0.05)
            os.write(leader, key)
            assert is_ended(keyboard, 0.05) == ends
        assert termios.tcgetattr(follower) == before
    os.close(leader)


def test_an_error_ends_a_live_query(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(b"SET on_bad = 'error';\rSELECT COUNT(*) AS n FROM bids [RANGE 1 HOUR] EMIT ON CHANGE;\r")
    terminal.until("q or Ctrl-C ends the query")
    (tmp_path / "part").write_text(HEAD + "x,x,x\n")
    (tmp_path / "part").rename(tmp_path / "bids" / "1.csv")
    terminal.until("error: ")
    terminal.until("eddyline>")
    assert terminal.leave() == 0


def test_statements_of_several_lines_are_recalled_by_a_later_shell(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(b"SELECT price\r")
    terminal.until("...")
    terminal.type(b"FROM bids;\r")
    terminal.until("2 rows in ")
    terminal.until("eddyline>")
    assert terminal.leave() == 0
    history = tmp_path / "state" / "eddyline" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    later = Terminal(tmp_path, "bids")
    try:
        later.until("eddyline>")
        later.type(UP + UP)  # the statement before `exit`
        later.until("FROM bids;")
        later.type(b"\r")
        later.until("2 rows in ")
        later.until("eddyline>")
        assert later.leave() == 0
    finally:
        later.close()


def test_words_are_completed_and_coloured(terminal: Terminal) -> None:
    terminal.type(b"SEL" + TAB)
    terminal.until("SELECT")
    terminal.type(b" pri" + TAB)
    terminal.until("price")
    assert b"\x1b[" in terminal.said
    terminal.type(b" FROM bids;\r")
    terminal.until("2 rows in ")
    terminal.until("eddyline>")
    assert terminal.leave() == 0


def test_what_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bids.csv").write_text(HEAD + "1,10.5,2024-01-01 00:00:00\n")
    _, shell = typed(".open bids bids.csv", "CREATE QUERY dear AS SELECT item FROM bids;")
    words = shell.words()

    def found(before: str) -> list[str]:
        return [word for _, word, _ in completions(before, words)]

    assert found("SELECT date_tr") == ["date_trunc"] and found("sel") == ["SELECT"]
    assert found("SELECT bids.pri") == ["price"] and found("SELECT x FROM bi") == ["bids"]
    assert found(".op") == [".open"] and found(".run de") == ["dear", "DESC", "DESCRIBE"]
    assert "SHOW" in found("sh") and found("ex") == ["exp", "EXISTS", "EXPLAIN", "exit"]


def test_when_enter_ends_a_statement() -> None:
    assert all(is_complete(text) for text in ("exit", "\\d bids", ".open a b", "", "SELECT 1;", "SELECT 1;\n-- done\n"))
    assert not any(is_complete(text) for text in ("SELECT 1", "SELECT ';", "SELECT 1; SELECT", "SELECT (1 -- ;"))


def test_colours_of_a_statement() -> None:
    words = {"keyword": ["SELECT", "GROUP BY"], "function": ["sum", "left"]}
    (first, second) = coloured("select sum(x), sum -- all\n'a', 1.5, y_1 by", words)
    assert (COLOURS["keyword"], "select") in first and (COLOURS["function"], "sum") in first
    assert first.count((COLOURS["function"], "sum")) == 1 and (COLOURS["comment"], "-- all") in first
    assert (COLOURS["text"], "'a'") in second and (COLOURS["number"], "1.5") in second
    assert ("", "y_1") in second and (COLOURS["keyword"], "by") in second
    assert ["".join(part for _, part in line) for line in coloured("'a\nb' c\n", words)] == ["'a", "b' c", ""]
