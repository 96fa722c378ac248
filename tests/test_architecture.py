"""What the pages say of files and formats is true: the tables of ARCHITECTURE.md, and the versions in docs/checkpoint-format.md.

`REWRITE_GOLDEN=1` writes the tables anew from the first lines of the modules.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from eddyline.runtime.recovery import snapshot
from eddyline.runtime.spark.job import ledger
from eddyline.runtime.spark.shard import processor

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
#: The two largest folders.
FOLDERS = ("runtime", "connectors")


def table(folder: str) -> str:
    """The table of a folder: each file with the first line of its docstring."""
    lines = ["| file | responsibility |", "| --- | --- |"]
    for path in sorted((ROOT / "src/eddyline" / folder).glob("*.py")):
        if path.name != "__init__.py":
            said = ast.get_docstring(ast.parse(path.read_text()))
            assert said, f"{path} has no docstring"
            lines.append(f"| `{path.name}` | {said.splitlines()[0].rstrip('.')} |")
    return "\n".join(lines) + "\n"


def names(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+\.py)`", text, re.M)


def test_the_two_largest_folders_have_a_table() -> None:
    page = PAGE.read_text()
    for folder in FOLDERS:
        form = re.compile(rf"(<!-- files of {folder}/ -->\n)(.*?)(<!-- end -->)", re.S)
        if os.environ.get("REWRITE_GOLDEN"):
            page = form.sub(lambda found, folder=folder: found[1] + table(folder) + found[3], page)
            PAGE.write_text(page)
        shown = form.search(page)
        assert shown is not None and names(shown[2]) == names(table(folder)), (
            f"the table of {folder}/ is old: REWRITE_GOLDEN=1 writes it anew"
        )


def test_the_page_on_checkpoints_has_the_versions() -> None:
    page = (ROOT / "docs/checkpoint-format.md").read_text()
    said = dict(re.findall(r"^\| `([\w/]+\.py)` \| .* \| (\d+) \|$", page, re.M))
    versions = {"runtime/recovery/snapshot.py": snapshot.FORMAT, "runtime/spark/shard/processor.py": processor.FORMAT}
    assert said == {name: str(number) for name, number in (versions | {"runtime/spark/job/ledger.py": ledger.FORMAT}).items()}


def test_a_public_class_name_stands_for_one_class() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src/eddyline").glob("**/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
