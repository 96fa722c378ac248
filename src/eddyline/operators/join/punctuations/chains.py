"""Which stored rows a punctuation can concern, where all references of a join are equal in one key.

Answer   `KeyChains.concerned` gives the keys that were closed since the last sweep, and those of new rows, which may
         have been closed before. `rows` finds their rows by the hash chains of these keys. So a sweep costs what came
         in and not what is stored.
State    The keys that were closed, and those of the new rows, since the last sweep.
Limits   One key per reference, which is a column; no windows, for a row that leaves its window can end the wait of
         others; streams only. Elsewhere, and where a promise is no list of constants, all rows are swept.
Reading  docs/punctuations.md
"""

from __future__ import annotations

import numpy as np

from eddyline.model.datatypes import DataType
from eddyline.model.records.punctuation import PATTERN, from_text
from eddyline.model.window import Unbounded
from eddyline.operators.join.combination import Combinations
from eddyline.operators.join.group import JoinGroup
from eddyline.operators.join.punctuations.alive import JoinShape
from eddyline.operators.join.punctuations.one_key import OneKey
from eddyline.operators.promises.closed import Closed
from eddyline.operators.promises.closings import Closings
from eddyline.operators.promises.covering import constants
from eddyline.operators.stream.keys import keys_of
from eddyline.state.closed import distinct
from eddyline.state.columns import Ints
from eddyline.tuning import PunctuationTuning

#: Keys of new rows are put together, each once, when they lie in more pieces than this.
_MOST_PIECES = PunctuationTuning.most_pieces


class KeyChains:
    def __init__(self, group: JoinGroup, rule: JoinShape, closings: Closings) -> None:
        self.group = group
        self.rule = rule
        self.closings = closings
        #: Reference -> name, column of the stream and type of its key.
        self.keys: dict[int, tuple[str, str, DataType]] = _one_class(group, rule)
        self.one_key = OneKey(rule, self.keys)
        self._closed: list[Ints] = []
        self._new: list[Ints] = []
        #: Whether the next sweep takes all rows.
        self.whole = True
        self.reload()

    def reload(self) -> None:
        """The members of the group have changed."""
        self.whole = True
        windows = [member.window for base in self.group.bases.values() for member in base.port.members.values()]
        #: Whether sweeps can be confined to chains.
        self.serves = bool(self.keys) and all(isinstance(window, Unbounded) for window in windows)
        #: Whether rows leave by themselves, whatever is promised.
        self.windowed = not any(isinstance(window, Unbounded) for window in windows)

    def see(self, position: int, rows: Combinations) -> None:
        """New rows of a reference."""
        if self.serves and not self.whole:
            self._new.append(self.group.bases[position].store.at(self.keys[position][0], rows.ids[position]))
            if len(self._new) > _MOST_PIECES:
                self._new = [distinct(np.concatenate(self._new))]

    def close(self) -> None:
        """Take the promises of an epoch."""
        if not self.serves or self.whole:
            return
        for position, (_, column, kind) in self.keys.items():
            closed, regions = self.rule.promised(position)
            for body, _ in () if closed is None else closed.fresh:
                if body.column_names == [PATTERN]:
                    self._close_patterns(body.column(PATTERN).to_pylist(), closed, column, kind, regions)  # type: ignore[arg-type]
                elif set(body.column_names) <= {column, *regions}:
                    if column in body.column_names:
                        self._closed.append(keys_of(body.column(column).combine_chunks(), kind))
                    else:
                        self.whole = True

    def _close_patterns(self, texts: list[str], closed: Closed, column: str, kind: DataType, regions: object) -> None:
        for text in texts:
            patterns = from_text(text, closed.types)
            if patterns.keys() <= {column, *regions}:  # type: ignore[misc]
                listed = patterns[column].constants if column in patterns else None
                if listed is None:
                    self.whole = True
                else:
                    self._closed.append(keys_of(constants(listed, kind), kind))

    def concerned(self) -> Ints | None:
        """The keys whose rows are to be swept, those of new rows among them; None: all rows are. What was seen and
        closed is
        forgotten."""
        keys, self._closed, self._new = [*self._closed, *self._new], [], []
        if self.whole or not self.serves:
            self.whole = not self.serves
            return None
        return distinct(np.concatenate(keys)) if keys else np.empty(0, np.int64)

    def rows(self, keys: Ints) -> dict[int, Ints]:
        """The rows with these keys, by reference."""
        return {position: np.sort(self.one_key.rows(position, keys)[0]) for position in self.keys}


def _one_class(group: JoinGroup, rule: JoinShape) -> dict[int, tuple[str, str, DataType]]:
    """The one key of every reference; empty: the references are not equal in one key that is a column of each."""
    found: dict[int, tuple[str, str, DataType]] = {}
    if len(rule.parts) != 1:
        return found
    pins = {(link.child, pin.key): pin for links in rule.links.values() for link in links for pin in link.pins}
    for position, seat in enumerate(group.config.seats):
        mine = [pin for (child, _), pin in pins.items() if child == position]
        if seat.is_table or len(seat.keys) != 1 or len(mine) != 1 or not mine[0].is_column or mine[0].ends is not None:
            return {}
        assert mine[0].column is not None
        found[position] = (mine[0].key, mine[0].column, mine[0].type)
    return found if len({kind for _, _, kind in found.values()}) == 1 else {}
