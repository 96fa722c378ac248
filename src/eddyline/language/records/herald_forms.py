"""Texts of heralds that differ in their numbers only: one of them is parsed, the others are filled in.

Answer   `Texts.herald` gives the herald of a text as `read` does; it reads a text once, and fills in those whose form
         it knows:

             store >= 200 AND store < 400 FOR 300 ROWS    form store >= # AND store < # FOR # ROWS: parsed
             store >= 400 AND store < 600 FOR 250 ROWS    the same form: its numbers replace those of the first

         `Texts.many` does the same for a column of texts: those of one form are read by a kernel, and none becomes an
         object of its own.

State    The texts that came; per form a condition whose numbers are replaced, or that texts of this form are read one
         by one.
Limits   For comparisons of INT, BIGINT and DOUBLE columns with numbers of up to nine digits, and one number after FOR.
         `read` parses all other texts, and those whose number is no span, so that users see its errors. A form is used
         only if parsing a second text of it, with numbers of this module, gives what filling in gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eddyline.errors import UserError
from eddyline.language.text.windows import LONGEST, MOST_ROWS
from eddyline.model.expressions.expression import Call, ColumnRef, Expression, Literal, conjuncts
from eddyline.model.records.herald import NEVER, Alike, Herald, TextHeralds

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.model.records.records import Flags, Ints

#: Words, signs of comparison and plain numbers; a text with other characters has no form.
_PLAIN = re.compile(r"[A-Za-z0-9_\s<>=-]*")
#: Numbers of up to nine digits fit into INT, so that numbers of one form have one type.
_NUMBER = re.compile(r"\b([0-9]{1,9})\b")
_LONGER = re.compile(r"\b[0-9]{10,}")
_COMPARISONS = ("=", "<", "<=", ">", ">=")
_NUMBERS = ("INT", "BIGINT", "DOUBLE")
#: Bounds of memory: a text and a form have about a kilobyte.
_MOST_TEXTS, _MOST_FORMS = 4096, 1024


@dataclass(frozen=True)
class _Form:
    #: The text before, between and after the numbers.
    pieces: tuple[str, ...]
    #: A condition of the form, and the sign of each of its numbers.
    condition: Expression
    signs: tuple[int, ...]
    #: Microseconds of one unit of the span; None: it is a number of rows.
    unit: int | None

    def filled(self, numbers: list[int], text: str) -> Herald | None:
        """The herald with other numbers; None: they are no span."""
        *bounds, span = numbers
        if not self.least <= span <= self.most:
            return None
        rows, micros = (span, None) if self.unit is None else (None, span * self.unit)
        values = iter([sign * bound for sign, bound in zip(self.signs, bounds, strict=True)])
        return Herald(_filled(self.condition, values), rows, micros, text)

    @property
    def least(self) -> int:
        """The shortest span, as a number of the text."""
        return 1 if self.unit is None else 0

    @property
    def most(self) -> int:
        return MOST_ROWS if self.unit is None else LONGEST // max(self.unit, 1)

    @cached_property
    def bytes(self) -> tuple[Any, Ints]:
        """The pieces one after the other, and the end of each."""
        import numpy as np

        whole = "".join(self.pieces).encode()
        return np.array([*whole], np.uint8), np.cumsum([len(piece) for piece in self.pieces])

    @cached_property
    def factors(self) -> Ints:
        import numpy as np

        return np.array(self.signs, np.int64)


class Texts:
    """The heralds of one stream. `read` parses and binds a text."""

    def __init__(self, read: Callable[[str], Herald]) -> None:
        self._read = read
        self._heralds: dict[str, Herald] = {}
        #: By the pieces of text around the numbers; None: texts of this form are read one by one.
        self._forms: dict[tuple[str, ...], _Form | None] = {}

    def herald(self, text: str) -> Herald:
        """The herald of a text.

        Raises:
            UserError: it is no herald.
        """
        found = self._heralds.get(text)
        if found is None:
            if len(self._heralds) >= _MOST_TEXTS:
                self._heralds.clear()
            found = self._heralds[text] = self._made(text)
        return found

    def many(self, texts: pa.Array) -> TextHeralds:
        """The heralds of a column of texts; a text that is no herald is a problem."""
        import numpy as np

        heralds = TextHeralds(np.full(len(texts), NEVER), np.full(len(texts), NEVER))
        left = np.arange(len(texts))
        while len(left):
            first = int(left[0])
            text = texts[first].as_py()
            form = self._forms.get(tuple(_NUMBER.split(text)[::2]))
            if form is not None:
                fits = self._fill(heralds, texts, left, form)
                left = left[~fits]
                if fits[0]:
                    continue
            self._single(heralds, first, text)
            left = left[left != first]
        return heralds

    def _fill(self, heralds: TextHeralds, texts: pa.Array, left: Ints, form: _Form) -> Flags:
        """Read those of the texts `left` that have a form; returns which of them have it."""
        from eddyline.kernels.texts.form_texts import form_numbers
        from eddyline.state.columns import string_buffers

        fits, numbers = form_numbers(*string_buffers(texts), left, *form.bytes)
        fits &= (numbers[:, -1] >= form.least) & (numbers[:, -1] <= form.most)
        is_whole = fits.all()
        at, numbers = (left, numbers) if is_whole else (left[fits], numbers[fits])
        spans, unit = (heralds.rows, 1) if form.unit is None else (heralds.micros, form.unit)
        spans[at] = numbers[:, -1] * unit
        heralds.alike.append(Alike(form.condition, at, numbers[:, :-1] * form.factors))
        return fits

    def _single(self, heralds: TextHeralds, at: int, text: str) -> None:
        try:
            found = self.herald(text)
        except UserError as problem:
            heralds.problems[at] = problem
            return
        heralds.single[at] = found
        if found.rows is not None:
            heralds.rows[at] = found.rows
        if found.micros is not None:
            heralds.micros[at] = min(found.micros, NEVER)

    def _made(self, text: str) -> Herald:
        pieces = _NUMBER.split(text)
        form, numbers = tuple(pieces[::2]), [int(number) for number in pieces[1::2]]
        if form in self._forms:
            known = self._forms[form]
            return (None if known is None else known.filled(numbers, text)) or self._read(text)
        found = self._read(text)
        if all(_PLAIN.fullmatch(piece) is not None and _LONGER.search(piece) is None for piece in form):
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[form] = self._form(form, text, found, numbers)
        return found

    def _form(self, form: tuple[str, ...], text: str, herald: Herald, numbers: list[int]) -> _Form | None:
        """The form of a text, if a second text of it comes out as it should."""
        own = [17 + 2 * at for at in range(len(numbers))]
        second = form[0] + "".join(str(number) + piece for number, piece in zip(own, form[1:], strict=True))
        try:
            other = self._read(second)
        except UserError:
            return None
        parts = conjuncts(other.condition)
        signs = tuple(
            sign for part, number in zip(parts, own[:-1], strict=False) if (sign := _sign(part, number)) is not None
        )
        if not len(parts) == len(signs) == len(own) - 1:
            return None
        made = _Form(form, other.condition, signs, None if other.micros is None else other.micros // own[-1])
        return made if made.filled(own, second) == other and made.filled(numbers, text) == herald else None


def _sign(part: Expression, number: int) -> int | None:
    """The sign of a number of the text in a comparison with a column; None: the part is no such comparison."""
    if not isinstance(part, Call) or part.function not in _COMPARISONS:
        return None
    literals = [side for side in part.args if isinstance(side, Literal) and side.type.name in _NUMBERS]
    if len(literals) != 1 or not any(
        isinstance(side, ColumnRef) and side.type == literals[0].type for side in part.args
    ):
        return None
    values = [literals[0].value]
    return 1 if values[0] == number else -1 if values[0] == -number else None


def _filled(e: Expression, values: Iterator[int]) -> Expression:
    """The same conjunction with other numbers, in order."""
    if isinstance(e, Literal):
        return Literal(float(next(values)) if e.type.name == "DOUBLE" else next(values), e.type)
    return Call(e.function, tuple(_filled(part, values) for part in e.args), e.type) if isinstance(e, Call) else e
