"""What lines of a shell are: statements, parts of statements, or commands.

Answer   `split` cuts a text at the semicolons of its own, `command_of` finds the command of a line, `outer_text` blanks
         what lies in quotes, comments and parentheses, so that clauses can be found.
State    None.
Limits   Words only: `eddyline.language` parses statements.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|[;()]", re.S)
_SPACE = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_BLANK = re.compile(rf"{_SPACE}\Z", re.S)
#: Statements that only the shell has.
_OWN = re.compile(rf"{_SPACE}(SHOW|DESCRIBE|DESC)\b{_SPACE}(.*?){_SPACE}\Z", re.S | re.I)
#: Words of other shells: what each of them does here.
_ALIASES = {"exit": ".quit", ".exit": ".quit", "quit": ".quit", "\\q": ".quit", "help": ".help", "\\?": ".help"}

#: Words that begin statements and commands of the shell and are no words of the language.
OWN_WORDS = ("DESCRIBE", "SHOW", "STREAMS", "QUERIES", "TABLES", "SINKS", "SETTINGS", "FUNCTIONS", "EXPLAIN", "DROP")
COMMAND_WORDS = (".quit", "exit", "quit", "help", "\\d")


def split(text: str) -> tuple[list[str], str]:
    """The statements that end with `;`, and the rest; a `;` in quotes or in a comment ends nothing.

    >>> split("SELECT ';' FROM s; SELECT")
    (["SELECT ';' FROM s"], ' SELECT')
    """
    statements, start = [], 0
    for piece in _PIECES.finditer(text):
        if piece[0] == ";":
            statements.append(text[start : piece.start()])
            start = piece.end()
    return [s for s in statements if not is_blank(s)], text[start:]


def is_blank(text: str) -> bool:
    """Whether a text has nothing but blanks and comments."""
    return _BLANK.match(text) is not None


def own_statement(text: str) -> tuple[str, str] | None:
    """SHOW or DESCRIBE, and what follows; None: it is a statement of the language.

    >>> own_statement("desc bids"), own_statement("SELECT 1")
    (('DESCRIBE', 'bids'), None)
    """
    found = _OWN.match(text)
    return None if found is None else ("SHOW" if found[1].upper() == "SHOW" else "DESCRIBE", found[2])


def command_of(line: str) -> str:
    """The command of the shell that a line is, under its own name; an empty text if the line belongs to a statement.

    >>> command_of("EXIT;"), command_of(r"\\d bids"), command_of("SELECT 1;")
    ('.quit', '.schema bids', '')
    """
    line = line.strip().rstrip(";").strip()
    name, _, rest = line.partition(" ")
    if name == r"\d":
        return f".schema {rest.strip()}" if rest.strip() else ".tables"
    if line.lower() in _ALIASES:
        return _ALIASES[line.lower()]
    return line if line.startswith((".", "\\")) else ""


def outer_text(text: str) -> str:
    """The text, equally long, with blanks for comments and for what lies in parentheses, and with `'` for each character
    of what is quoted.

    >>> outer_text("SELECT 'a' FROM (SELECT 1) -- s")
    "SELECT ''' FROM                "
    """
    parts, end, depth = [], 0, 0
    for piece in _PIECES.finditer(text):
        between = text[end : piece.start()]
        parts.append(" " * len(between) if depth else between)
        quoted = piece[0][0] in "'\"" and not depth
        parts.append(("'" if quoted else ";" if piece[0] == ";" else " ") * len(piece[0]))
        depth = max(0, depth + {"(": 1, ")": -1}.get(piece[0], 0))
        end = piece.end()
    return "".join(parts) + (" " * len(text[end:]) if depth else text[end:])
