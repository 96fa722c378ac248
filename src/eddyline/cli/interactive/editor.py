"""Lines of a user: from an editor on a terminal, otherwise from standard input.

Answer   `lines` gives what the user has typed, line by line; from the editor whole statements, which may have several
         lines. The editor completes words, colours them, and recalls statements of earlier shells.
State    The history file.
Limits   The editor needs prompt_toolkit; without it a terminal gives single lines.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from eddyline.cli.interactive.texts import command_of, is_blank, split

PROMPT, CONTINUED = "eddyline> ", "      ... "
#: The kind of each piece of a statement, in the order of the alternatives.
_PIECES = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<text>'(?:[^']|'')*(?:'|\Z))"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*(?:\"|\Z))"
    r"|(?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)"
    r"|(?P<word>[.\\]?\b\w+)",
    re.S,
)
#: The colours of the terminal, which its user has chosen.
COLOURS = {
    "comment": "ansibrightblack",
    "text": "ansigreen",
    "number": "ansicyan",
    "keyword": "ansiblue bold",
    "function": "ansimagenta",
    "command": "ansiyellow",
}


class LineTaker(Protocol):
    """What the lines are for: a shell."""

    #: The text of a statement that has not ended.
    pending: str

    def words(self) -> dict[str, Sequence[str]]:
        """The words that are completed, by their kind: keyword, function, command, name."""


def lines(shell: LineTaker, interactive: bool) -> Iterator[str]:
    """What the user types; `interactive`: at a terminal."""
    if not interactive:
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    read = _reader(shell.words)
    while True:
        try:
            yield read(CONTINUED if shell.pending else PROMPT)
        except KeyboardInterrupt:
            shell.pending = ""
        except EOFError:
            return


def is_complete(text: str) -> bool:
    """Whether Enter carries the text out: it is a command, or its last statement has ended.

    >>> [is_complete(text) for text in ("help", "SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- one")]
    [True, False, True, False, True]
    """
    return bool(command_of(text)) or is_blank(split(text)[1])


def coloured(text: str, vocabulary: dict[str, Sequence[str]]) -> list[list[tuple[str, str]]]:
    """The lines of a text, each as pieces with their colours; an empty colour leaves that of the terminal.

    >>> coloured("SELECT 1", {"keyword": ["SELECT"], "function": []})
    [[('ansiblue bold', 'SELECT'), ('', ' '), ('ansicyan', '1')]]
    """
    keywords = {word for phrase in vocabulary["keyword"] for word in phrase.upper().split()}
    functions = {name.lower() for name in vocabulary["function"]}
    pieces, end = [], 0
    for piece in _PIECES.finditer(text):
        kind = piece.lastgroup or ""
        if kind == "word":
            called = text[piece.end() :].lstrip().startswith("(")
            if piece[0].lower() in functions and called:
                kind = "function"
            elif piece[0].upper() in keywords:
                kind = "keyword"
            elif command_of(text) and not text[: piece.start()].strip():
                kind = "command"
        pieces += [("", text[end : piece.start()]), (COLOURS.get(kind, ""), piece[0])]
        end = piece.end()
    pieces.append(("", text[end:]))
    found: list[list[tuple[str, str]]] = [[]]
    for colour, part in pieces:
        first, *further = part.split("\n")
        found[-1] += [(colour, first)] if first else []
        found += [[(colour, line)] if line else [] for line in further]
    return found


def completions(before: str, vocabulary: dict[str, Sequence[str]]) -> list[tuple[str, str, str]]:
    """The words that go on with the last word of a text, as (that word, the whole one, its kind), names first.

    >>> completions("SELECT da", {"name": ["day"], "function": ["date_trunc"], "keyword": ["DESC"]})
    [('da', 'day', 'name'), ('da', 'date_trunc', 'function')]
    """
    found = re.search(r"[.\\]?\w*\Z", before)
    word = found[0] if found else ""
    if not is_blank(before[: len(before) - len(word)]):
        # A point behind a name separates it from its column; commands stand at the beginning.
        word = word.lstrip(".\\")
    return [
        (word, known, kind)
        for kind in ("name", "function", "keyword", "command")
        for known in vocabulary.get(kind, ())
        if known.lower().startswith(word.lower())
    ]


def history_file() -> Path:
    """Where statements are kept: below the folder of the user's state."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "eddyline" / "history"


def _reader(vocabulary: Callable[[], dict[str, Sequence[str]]]) -> Callable[[str], str]:
    try:
        import prompt_toolkit
    except ImportError:
        return input
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import Lexer

    class WordsOfJob(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:
            for word, known, kind in completions(document.text_before_cursor, vocabulary()):
                yield Completion(known, start_position=-len(word), display_meta=kind)

    class ColoursOfStatement(Lexer):
        def lex_document(self, document: Document) -> Callable[[int], list[tuple[str, str]]]:
            found = coloured(document.text, vocabulary())
            return lambda line: found[line] if line < len(found) else []

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: Any = prompt_toolkit.PromptSession(
        history=_history(),
        completer=WordsOfJob(),
        complete_while_typing=False,
        lexer=ColoursOfStatement(),
        multiline=True,
        prompt_continuation=CONTINUED,
        key_bindings=keys,
        enable_history_search=False,
    )
    return lambda prompt: str(session.prompt(prompt))


def _history() -> Any:
    """The statements of earlier shells, or of this one only where the file cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Statements may hold what others should not read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
