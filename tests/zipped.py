"""`python -m tests.zipped`: put bytecode into the zips from which Spark's Python processes import PySpark.

Answer   Every module of `pyspark.zip` and of the zip of Py4J has its bytecode beside it afterwards. Python writes none
         into a zip: without this step every process that Spark starts compiles the modules again, 0.9 instead of 0.35
         CPU seconds for each.
State    The zips of the installed package. A new file takes the place of the old one in one step, and what was there
         stays where it was: processes that read the old one go on.
Limits   It only saves time: a folder that cannot be written is left as it is.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import warnings
from importlib import _bootstrap_external
from pathlib import Path
from zipfile import ZipFile


def with_bytecode(path: Path) -> bool:
    """Add bytecode to a zip; whether it was added now."""
    with ZipFile(path) as old:
        names = old.namelist()
    if any(name.endswith(".pyc") for name in names):
        return False
    handle, made = tempfile.mkstemp(dir=path.parent, suffix=".zip")
    os.close(handle)
    try:
        shutil.copy(path, made)
        with ZipFile(made, "a") as new, warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            for name in names:
                if name.endswith(".py") and "/tests/" not in name:
                    text = new.read(name)
                    code = compile(text, str(path / name), "exec", dont_inherit=True)
                    # Without a check against the text: a zip does not change in place.
                    new.writestr(
                        f"{name}c", _bootstrap_external._code_to_hash_pyc(code, importlib.util.source_hash(text), False)
                    )
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise
    return True


def main() -> None:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    for path in sorted((Path(found.origin).parent / "python" / "lib").glob("*.zip")):
        try:
            print(f"zipped: {path.name} {'has bytecode now' if with_bytecode(path) else 'has bytecode'}")
        except OSError as problem:
            print(f"zipped: {path.name} stays as it is: {problem}")


if __name__ == "__main__":
    main()
