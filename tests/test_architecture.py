"""What the pages say of files and formats is true: the tables of ARCHITECTURE.md, and the versions in
docs/checkpoint-format.md.

`REWRITE_GOLDEN=1` writes the table anew from the first lines of the folders.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from eddyline.runtime.recovery import snapshot
from eddyline.runtime.sharded.job import ledger
from eddyline.runtime.sharded.storage import heads

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"


def rooms() -> dict[str, str]:
    """Each folder of the package with the first line of its docstring."""
    found = {}
    for path in sorted((ROOT / "src/eddyline").rglob("__init__.py")):
        said = ast.get_docstring(ast.parse(path.read_text()))
        assert said, f"{path} has no docstring"
        found[str(path.parent.relative_to(ROOT / "src/eddyline"))] = said.splitlines()[0].rstrip(".")
    del found["."]
    return found


def table() -> str:
    lines = ["| room | what it does |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}/` | {said} |" for name, said in rooms().items())]) + "\n"


def test_the_table_of_rooms_is_that_of_the_folders() -> None:
    page = PAGE.read_text()
    form = re.compile(r"(<!-- rooms -->\n)(.*?)(<!-- end -->)", re.S)
    if os.environ.get("REWRITE_GOLDEN"):
        page = form.sub(lambda found: found[1] + table() + found[3], page)
        PAGE.write_text(page)
    shown = form.search(page)
    assert shown is not None and shown[2] == table(), "the table of rooms is old: REWRITE_GOLDEN=1 writes it anew"


def test_no_room_is_crowded() -> None:
    files = {name: len(list((ROOT / "src/eddyline" / name).glob("*.py"))) for name in rooms()}
    assert {name: count for name, count in files.items() if count > 18} == {}


def test_the_page_on_checkpoints_has_the_versions() -> None:
    page = (ROOT / "docs/checkpoint-format.md").read_text()
    said = dict(re.findall(r"^\| `([\w/]+\.py)` \| .* \| (\d+) \|$", page, re.M))
    versions = {"runtime/recovery/snapshot.py": snapshot.FORMAT, "runtime/sharded/storage/heads.py": heads.FORMAT}
    assert said == {
        name: str(number) for name, number in (versions | {"runtime/sharded/job/ledger.py": ledger.FORMAT}).items()
    }


def test_a_public_class_name_stands_for_one_class() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src/eddyline").glob("**/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
