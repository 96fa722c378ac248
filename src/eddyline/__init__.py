"""eddyline: continuous queries over streams, exact under any plan, embedded or on Spark.

>>> import eddyline
>>> session = eddyline.Session()
"""

from __future__ import annotations

# Type checkers take a variable of this name for true. Nothing is loaded here: the command line sets up signals only
# after this file.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from eddyline.errors import EddylineError, EddylineWarning, UserError
    from eddyline.runtime.front.query import Query
    from eddyline.session import Session
    from eddyline.settings import Settings

    __version__: str

__all__ = ["EddylineError", "EddylineWarning", "Query", "Session", "Settings", "UserError"]

_HOMES = {
    "EddylineError": "eddyline.errors",
    "EddylineWarning": "eddyline.errors",
    "UserError": "eddyline.errors",
    "Query": "eddyline.runtime.front.query",
    "Session": "eddyline.session",
    "Settings": "eddyline.settings",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: Spark starts several small processes per job that import a module of ours, and the whole
    # engine takes each of them a second.
    if name == "__version__":
        from importlib.metadata import version

        return version("eddyline")
    if name not in _HOMES:
        raise AttributeError(f"module 'eddyline' has no attribute {name!r}")
    import gc
    import importlib

    # Modules, classes and functions are many objects that stay. Collections of garbage while they are loaded would visit
    # all of them again and again, for a seventh of the CPU time of a short program, and free nothing.
    collects = gc.isenabled()
    gc.disable()
    try:
        if name == "Session":
            # What the first session in this process loads.
            importlib.import_module("eddyline.runtime.embedded.runner")
        return getattr(importlib.import_module(_HOMES[name]), name)
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
