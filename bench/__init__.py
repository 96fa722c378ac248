"""Benchmarks: see README.md for the four kinds and the question that each answers.

Processes of benchmarks keep freed memory, as those of `eddyline run` do; a program asks for it by
`Session(keep_memory=True)`.
"""

from eddyline.runtime.figures.memory import keep_freed_memory

keep_freed_memory()
