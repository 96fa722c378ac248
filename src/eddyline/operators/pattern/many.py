"""An event that completes very many matches: said once, or refused.

Answer   `ManyMatches.see` counts the matches of each newest event of a query, whatever pieces they come in. Of the first
         event with more than `most` of them `told` gives a warning when its slice is done; where the user has set
         `most_matches`, `see` raises an error.
State    Of the newest event at hand: its index and its matches so far.
Limits   Once per query and process. A match is counted before a NOT at the end of its pattern can end it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.errors import DataProblem
from eddyline.operators.pattern.config import PatternConfig
from eddyline.state.columns import Ints


class ManyMatches:
    def __init__(self, config: PatternConfig, most: int) -> None:
        self._config = config
        self._most = most if config.most_matches is None else config.most_matches
        self._stream = config.pattern.book.stream
        self._event = -1
        self._count = 0
        #: The event with too many matches, what is said of it, and its matches so far.
        self._found: tuple[int, str] | None = None
        self._made = 0
        self._is_told = False

    def see(self, newest: Ints, partition: Callable[[int], str]) -> None:
        """The newest event of each of some matches; `partition` gives the text of an event's partition.

        Raises:
            DataProblem: an event has more matches than the user allows.
        """
        if self._is_told:
            return
        events, counts = np.unique(newest, return_counts=True)
        if events[0] == self._event:
            counts[0] += self._count
        self._event, self._count = int(events[-1]), int(counts[-1])
        if self._found is None and int(counts.max()) > self._most:
            event = int(events[np.argmax(counts > self._most)])
            self._found = (event, f"one event of stream {self._stream}{partition(event)} completes")
            if self._config.most_matches is not None:
                raise DataProblem(
                    f"query {self._config.name}: {self._found[1]} more than {self._most:,} matches",
                    detail=f"most_matches is {self._most:,}",
                    hint="write FIRST MATCH, WITHIN or PARTITION BY, more conditions, or a larger most_matches",
                )
        if self._found is not None and self._found[0] in events:
            self._made = int(counts[events == self._found[0]][0])

    def told(self) -> str | None:
        """The slice is done: what there is to say of it, if anything."""
        self._event, self._count = -1, 0
        if self._found is None:
            return None
        (_, made), self._found, self._is_told = self._found, None, True
        return f"{made} {self._made:,} matches; most_matches is {self._most:,}"
