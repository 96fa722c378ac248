"""Blocks of a file, read by other threads before the caller takes them.

Answer   `read_ahead` gives the items of an iterator in their order; while its caller works on one of them the next is
         made. `side_by_side` gives what a function makes of each item, in their order; several cores work at once.
         Reading and parsing run outside Python's lock.
State    One thread per process that reads, for all files, and one per core that parses: made when they are first
         needed, and anew in a process that was forked.
Limits   At most one item is made before it is asked for, and one more per core is on its way. What the iterator or the
         function raises is raised where the caller takes the item, after all items before it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from eddyline.connectors.files.blocks import RecordBlock

Item = TypeVar("Item")
Made = TypeVar("Made")

#: More threads than these parse no faster: one thread works on the rows.
_MOST = 4


def read_ahead(blocks: Iterator[RecordBlock]) -> Iterator[RecordBlock]:
    """The same blocks in the same order; the first is being read when this returns."""
    return _Ahead(blocks)


class _Ahead:
    def __init__(self, blocks: Iterator[RecordBlock]) -> None:
        self._blocks = blocks
        self._next: Future[RecordBlock | None] | None = _reading().submit(next, blocks, None)

    def __iter__(self) -> Iterator[RecordBlock]:
        return self

    def __next__(self) -> RecordBlock:
        if self._next is None:
            raise StopIteration
        block = self._next.result()
        self._next = None if block is None else _reading().submit(next, self._blocks, None)
        if block is None:
            raise StopIteration
        return block


def side_by_side(
    items: Iterator[Item], work: Callable[[Item], Made], is_worth_it: Callable[[Item], bool]
) -> Iterator[Made]:
    """What `work` makes of each item; one that is not worth it is worked on by the caller's thread."""
    pending: deque[Future[Made]] = deque()
    problem: Exception | None = None
    while problem is None:
        try:
            item = next(items)
        except Exception as found:
            problem = found
            continue
        if not is_worth_it(item):
            yield from _results(pending)
            yield work(item)
            continue
        pending.append(_parsing().submit(work, item))
        if len(pending) > _cores():
            yield pending.popleft().result()
    yield from _results(pending)
    if not isinstance(problem, StopIteration):
        raise problem


def _results(pending: deque[Future[Made]]) -> Iterator[Made]:
    while pending:
        yield pending.popleft().result()


def _cores() -> int:
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _MOST)


@cache
def _reading() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="eddyline-read")


@cache
def _parsing() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), thread_name_prefix="eddyline-parse")


def _forget() -> None:
    _reading.cache_clear()
    _parsing.cache_clear()


os.register_at_fork(after_in_child=_forget)
