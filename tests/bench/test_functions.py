"""The way of a row stays as short as docs/life-of-a-row.md says."""

from __future__ import annotations

import re
from pathlib import Path

from bench.micro.functions import counted

PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-row.md"


def test_a_row_goes_through_as_many_functions_and_files_as_the_page_says() -> None:
    [(functions, files)] = re.findall(r"^\| now[^|]* \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    found = counted()
    listed = "; ".join(f"{name}: {', '.join(sorted(names))}" for name, names in sorted(found.items()))
    assert sum(map(len, found.values())) <= int(functions), listed
    assert len(found) <= int(files), listed
