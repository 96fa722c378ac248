"""Forked commands end, speak and are struck as those that are started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks

ENTRIES = ([sys.executable, "-m", "eddyline"], [str(Path(sys.executable).with_name("eddyline"))])


@pytest.mark.parametrize("entry", ENTRIES, ids=["module", "script"])
@pytest.mark.parametrize("arguments", [["version"], ["check", "nothing.sql"], ["no such command"]], ids=" ".join)
def test_a_forked_command_is_a_started_one(entry: list[str], arguments: list[str], tmp_path: Path) -> None:
    command = [*entry, *arguments]
    begun, forked = (
        call(command, cwd=tmp_path, capture_output=True, text=True) for call in (subprocess.run, forks.run)
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (begun.returncode, begun.stdout, begun.stderr)
    assert forked.stdout + forked.stderr


def test_a_shell_finds_a_forked_command(tmp_path: Path) -> None:
    environment = os.environ | {"PATH": os.pathsep.join([forks.server().path, os.environ["PATH"]])}
    line = "echo 'SELECT k FROM' > q.sql; mkdir in; cd in; eddyline version | cat; eddyline check ../q.sql"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout.startswith("eddyline ") and done.stderr.startswith("error: ")


def test_a_shell_finds_it_where_python_has_a_blank_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "python").symlink_to(sys.executable)
    script = tmp_path / "a b" / "eddyline"
    script.write_text(forks.script_of(str(tmp_path / "a b" / "python"), f"{forks.server().path}/socket"))
    script.chmod(0o700)
    done = subprocess.run([str(script), "version"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("eddyline ")


def test_a_program_has_its_folder_environment_input_and_exit(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text("import os; os.environ['HOOKED'] = 'hooked'")
    (tmp_path / "program.py").write_text(
        "import atexit, os, sys, beside\n"
        "atexit.register(print, 'at its end')\n"
        "print(beside.WORD, os.environ['HOOKED'], os.environ['MINE'], 'HOME' in os.environ, os.getcwd(), *sys.argv[1:])\n"
        "print(sys.stdin.read(), file=sys.stderr)\n"
        "sys.exit(7)\n"
    )
    environment = {"MINE": "mine", "PYTHONPATH": str(tmp_path / "hook")}
    command = [sys.executable, str(tmp_path / "program.py"), "first"]
    process = forks.Command(command, cwd=tmp_path / "hook", env=environment, stdin=-1, stdout=-1, stderr=-1, text=True)
    out, errors = process.communicate("typed")
    assert out.splitlines() == [f"beside hooked mine False {tmp_path / 'hook'} first", "at its end"]
    assert errors == "typed\n" and process.returncode == 7


def test_signals_and_errors(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('there', flush=True)\ntime.sleep(600)")
    (tmp_path / "fails.py").write_text("raise ValueError('its own')")
    process = forks.Command([sys.executable, str(tmp_path / "waits.py")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "there\n" and process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM == process.poll()
    process.stdout.close()
    failed = forks.run([sys.executable, str(tmp_path / "fails.py")], capture_output=True, text=True)
    assert failed.returncode == 1 and "ValueError: its own" in failed.stderr
