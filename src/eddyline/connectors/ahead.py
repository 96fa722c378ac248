"""Blocks of a file, read one ahead by a second thread.

Answer   `read_ahead` gives the items of an iterator in their order; while its caller works on one of them the next is made. Reading and
         parsing run outside Python's lock, so two cores share the work.
State    One thread per process, for all files: made when it is first needed, and anew in a process that was forked.
Limits   At most one item is made before it is asked for. What the iterator raises is raised where the item is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from eddyline.connectors.blocks import Block

_thread: ThreadPoolExecutor | None = None


def read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks in the same order; the first is being read when this returns."""
    return _Ahead(blocks)


class _Ahead:
    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._next: Future[Block | None] | None = _worker().submit(next, blocks, None)

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        if self._next is None:
            raise StopIteration
        block = self._next.result()
        self._next = None if block is None else _worker().submit(next, self._blocks, None)
        if block is None:
            raise StopIteration
        return block


def _worker() -> ThreadPoolExecutor:
    global _thread
    if _thread is None:
        _thread = ThreadPoolExecutor(1, thread_name_prefix="eddyline-read")
    return _thread


def _forget() -> None:
    global _thread
    _thread = None


os.register_at_fork(after_in_child=_forget)
