"""Each file of an embedded checkpoint damaged in turn: a clear message or a clean recovery, nothing in between."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from eddyline.state.sealed import sealed
from tests.fault.embedded_life import Life
from tests.fault.forked import Runs

pytestmark = pytest.mark.fault

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "a bit": lambda content: (
        content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 4]) + content[len(content) // 2 + 1 :]
    ),
    "empty": lambda content: b"",
    "another version's": lambda content: b'{"format": 1, "epoch": 3, "positions": {}}',
    "another version's, whole": lambda content: sealed(
        {"format": 99, "engine": "embedded", "epoch": 3, "pipeline": {"format": 99}}
    ),
}
#: Files that every start writes anew, or does not read: what control records did is in the header.
RENEWED = {"lock", "catalog.sql", "parts.json", "state.json", "000000000000.json", "000000000001.json"}


@pytest.fixture(scope="module")
def stopped(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> tuple[Life, Path]:
    """A life that was killed in the middle of its second run, with rows that wait and groups; and a copy of it."""
    life = Life(tmp_path_factory.mktemp("damage") / "life", runs)
    life.first()
    life.arrive()
    life.ends_well()
    life.change()
    before = life.kept(life.folder.parent / "before")
    assert life.run(life.plan()) == (0, "")
    saves = [o.number for o in life.operations() if o.kind == "rename" and o.path.endswith("checkpoint.json")]
    life.put_back(before)
    assert life.run(life.plan(saves[len(saves) // 2]))[0] == -signal.SIGKILL
    life.arrive()
    return life, life.kept(life.folder.parent / "stopped")


def files_of(folder: Path) -> list[Path]:
    return sorted(
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")
    )


def written(life: Life) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (life.folder / "results").rglob("*.parquet")}


def is_orphan(path: Path, folder: Path) -> bool:
    """A block, or results in no file, that the header does not name."""
    header = (folder / "state/checkpoint.json").read_text()
    if path.parent.name == "pending":
        return str(int(path.stem)) not in json.loads(header)["body"]["pending"]
    return path.name not in header


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_file_in_turn(damage: str, stopped: tuple[Life, Path], wanted: dict[str, object]) -> None:
    _damaged_in_turn(damage, stopped, wanted, 1)


@pytest.mark.timeout(2400)
def test_some_files_in_turn(stopped: tuple[Life, Path], wanted: dict[str, object]) -> None:
    _damaged_in_turn("a bit", stopped, wanted, 9)


def _damaged_in_turn(damage: str, stopped: tuple[Life, Path], wanted: dict[str, object], blocks: int) -> None:
    """Of the blocks one in so many, and every other file."""
    life, kept = stopped
    files = [path for at, path in enumerate(files_of(kept / "state")) if path.parts[0] != "blocks" or at % blocks == 0]
    assert {"blocks", "checkpoint.json", "eddyline.json", "begun.json", "lock", "catalog.sql"} <= {
        path.parts[0] for path in files
    }
    named = 0
    for number, path in enumerate(files):
        life.put_back(kept)
        victim = life.folder / "state" / path
        content = victim.read_bytes()
        victim.write_bytes(DAMAGES[damage](content))
        before = written(life)
        code, said = life.run()
        if code == 0:
            # Reports are for people: no start reads them. Marks of stretches under way say at most that a child parses
            # them.
            assert (
                path.parts[0] in ("dashboard", "parsing")
                or path.name in RENEWED
                or (path.parent.name in ("blocks", "pending") and is_orphan(path, kept))
            ), f"{path} is not needed?"
            assert life.results() == wanted, path
            continue
        named += 1
        assert code == 2 and said.startswith("error:") and said.count("error:") == 1 and "hint:" in said, (
            f"{path}: {said}"
        )
        assert (path.name in said and "it held" in said) or "format 99" in said, f"{path}: {said}"
        assert written(life) == before, "a refused start changes nothing"
        # What is put back is as good as before.
        victim.write_bytes(content)
        if number == 0 or path.name == "checkpoint.json":
            life.ends_well()
            assert life.results() == wanted
    assert named >= 5


def test_missing_and_exchanged_files(stopped: tuple[Life, Path]) -> None:
    life, kept = stopped
    blocks = [path.name for path in sorted((kept / "state/blocks").iterdir()) if not is_orphan(path, kept)]
    pending = [path.name for path in sorted((kept / "state/pending").iterdir()) if not is_orphan(path, kept)]
    damages = [("checkpoint.json", None), (f"blocks/{blocks[0]}", None), (f"blocks/{blocks[0]}", blocks[1])]
    damages += [(f"pending/{name}", None) for name in pending] + [(f"pending/{pending[0]}", pending[-1])] * (
        len(pending) > 1
    )
    assert pending, "the life ends with results that are in no file"
    for old, new in damages:
        life.put_back(kept)
        path = life.folder / "state" / old
        if new is None:
            path.unlink()
        else:
            path.write_bytes((path.parent / new).read_bytes())
        code, said = life.run()
        assert code == 2 and path.name in said and "it held" in said, said
        assert "is missing" in said if new is None else "is damaged" in said, said


def test_a_checkpoint_is_for_its_owner_alone(stopped: tuple[Life, Path]) -> None:
    folder = stopped[1]
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o700
    for path in (folder / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    umask = os.umask(0)
    os.umask(umask)
    for path in (folder / "results").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o777 if path.is_dir() else 0o666) & ~umask, path
