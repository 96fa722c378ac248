"""A home of Spark in which Python finds `pyspark` as it is installed.

Answer   The JVM puts the archive of `pyspark` that lies in its home before all that is installed on the path of every
         helper process. Python compiles what it imports from an archive anew in each process, which costs a helper
         twice its own start. `light_home` has a JVM that starts inside it take a folder for its home that has all of
         the real one but that archive.
State    A folder of three links, which the JVM removes when it ends.
Limits   For the `pyspark` of the running interpreter: a home that SPARK_HOME names stays what it is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

#: What a JVM needs of its home.
_NEEDED = ("bin", "jars", "sbin")


@contextmanager
def light_home(wanted: bool = True) -> Iterator[list[Path]]:
    """What has been made, the folder first; nothing where the home is another one or cannot be made."""
    home = Path(pyspark.__file__).parent
    if not wanted or "SPARK_HOME" in os.environ or not all((home / name).is_dir() for name in _NEEDED):
        yield []
        return
    try:
        made = [Path(tempfile.mkdtemp(prefix="eddyline-spark-home-"))]
        for name in _NEEDED:
            made.append(made[0] / name)
            made[-1].symlink_to(home / name)
    except OSError:
        # Slower, and otherwise the same.
        yield []
        return
    os.environ["SPARK_HOME"] = str(made[0])
    try:
        yield made
    finally:
        del os.environ["SPARK_HOME"]


def remove_with(java: Any, made: list[Path]) -> None:
    """Have a JVM remove what was made, when it ends: the last one first."""
    for path in made:
        java.java.io.File(str(path)).deleteOnExit()
