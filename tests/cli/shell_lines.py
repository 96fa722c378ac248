"""What the tests of the shell share: a folder with a file of bids, and what a shell prints for typed lines."""

from __future__ import annotations

import io

from rich.console import Console

from eddyline.cli.shell import Shell

BIDS = """item,price,ts
1,10.5,2024-01-01 00:00:00
2,200,2024-01-01 00:00:01
1,300,2024-01-01 00:00:02
"""


def typed(*lines: str) -> tuple[str, Shell]:
    """The output of a shell for these lines."""
    output = io.StringIO()
    shell = Shell(Console(file=output, width=200))
    for line in lines:
        if not shell.feed(line):
            break
    return output.getvalue(), shell
