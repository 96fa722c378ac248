"""Benchmarks: see README.md for the four kinds and the question that each answers.

Processes of benchmarks keep freed memory, as those of `eddyline run` do; a program asks for it by
`Session(keep_memory=True)`.
"""

from contextlib import suppress

# `bench.turns` runs earlier checkouts too; before this module was there the engine kept freed memory by itself.
with suppress(ImportError):
    from eddyline.runtime.figures.memory import keep_freed_memory

    keep_freed_memory()
