"""`python -m tests.signatures --jobs 2`: compile the kernels that tests need, each once; two workers of pytest would do
it twice.

Answer   Every kernel with the signatures that `signatures.json` lists is in the cache afterwards. A kernel comes after
         those that it calls, which it finds in the cache. `--write DIR …` makes the list from the caches in these
         folders.
State    The cache of Numba, wherever `NUMBA_CACHE_DIR` or the package has it.
Limits   The list only saves time. A kernel or signature that it lacks is compiled by the first test that needs it; one
         that is no longer there is passed over. Signatures with constants in them belong to calls from other kernels
         and are left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pickle
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_suffix(".json")
KERNELS = Path(__file__).parents[1] / "src" / "eddyline" / "kernels"
_ARRAY = re.compile(r"(\w+)\[(\d)([CFA])(r?)\]")
_IMPORTED = re.compile(r"^from eddyline\.kernels\.(?:\w+\.)?(\w+) import", re.MULTILINE)
#: Name of a module -> its file. No two files of kernels have one name.
FILES = {path.stem: path for path in KERNELS.rglob("*.py") if path.name != "__init__.py"}

Text = str | list[Any]


def written(kind: Any) -> Text:
    """A type of Numba as JSON; ValueError for those that a list has no use for."""
    from numba.core import types

    if isinstance(kind, types.Array) and kind.aligned:
        return f"{kind.dtype}[{kind.ndim}{kind.layout}{'' if kind.mutable else 'r'}]"
    if isinstance(kind, types.BaseNamedTuple):
        return [f"{kind.instance_class.__module__}:{kind.instance_class.__name__}", *map(written, kind.types)]
    if isinstance(kind, types.BaseTuple):
        return ["", *map(written, kind.types)]
    if isinstance(kind, (types.Integer, types.Float, types.Boolean, types.NoneType)) and not isinstance(
        kind, types.Literal
    ):
        return str(kind)
    raise ValueError(f"{kind} has no text")


def read(text: Text) -> Any:
    """The type that `written` has put down."""
    from numba.core import types

    if isinstance(text, list):
        name, members = text[0], [read(one) for one in text[1:]]
        if not name:
            return types.Tuple.from_types(members) if hasattr(types.Tuple, "from_types") else types.Tuple(members)
        home, _, attribute = name.partition(":")
        return types.BaseTuple.from_types(members, getattr(importlib.import_module(home), attribute))
    if (found := _ARRAY.fullmatch(text)) is not None:
        return types.Array(read(found[1]), int(found[2]), found[3], readonly=bool(found[4]))
    return {"bool": types.boolean, "none": types.none}.get(text) or getattr(types, text)


def listed(folders: list[Path]) -> list[tuple[str, list[Text]]]:
    """(module.function, argument types) of everything in these caches, kernels after those that they call."""
    found: set[tuple[str, str]] = set()
    for path in (file for folder in folders for file in folder.rglob("*.nbi") if file.name.split(".")[0] in FILES):
        with path.open("rb") as file:
            pickle.load(file)
            _, overloads = pickle.loads(file.read())
        for signature, *_ in overloads:
            try:
                found.add((path.name.split("-")[0], json.dumps([written(kind) for kind in signature])))
            except ValueError:
                continue
    return [
        (name, json.loads(text))
        for name, text in sorted(found, key=lambda one: (_depth(one[0].split(".")[0]), _line(one[0]), one))
    ]


def _depth(module: str) -> int:
    return 1 + max(
        (_depth(other) for other in _IMPORTED.findall(FILES[module].read_text()) if other in FILES), default=0
    )


def _line(name: str) -> int:
    kernel = _kernel(name)
    return 0 if kernel is None else int(kernel.py_func.__code__.co_firstlineno)


def _kernel(name: str) -> Any:
    module, _, function = name.partition(".")
    try:
        name = ".".join(FILES[module].relative_to(KERNELS).with_suffix("").parts)
        return getattr(importlib.import_module(f"eddyline.kernels.{name}"), function, None)
    except (ImportError, KeyError):
        return None


def compiled(name: str, signature: list[Text]) -> bool:
    """Put one kernel into the cache; False: the list is older than the kernels."""
    kernel = _kernel(name)
    if kernel is None:
        return False
    from numba.core.errors import NumbaError

    try:
        kernel.compile(tuple(read(kind) for kind in signature))
    except (NumbaError, AttributeError, TypeError):
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.signatures", description="Compile the kernels that tests need."
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many processes compile")
    parser.add_argument(
        "--write", nargs="+", type=Path, metavar="DIR", help="make the list from the caches in these folders"
    )
    args = parser.parse_args(arguments)
    if args.write:
        lines = ",\n".join(json.dumps(one) for one in listed(args.write))
        LIST.write_text(f"[\n{lines}\n]\n")
        return 0
    wanted = json.loads(LIST.read_text())
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(compiled, *zip(*wanted, strict=True)))
    print(f"kernels: {sum(done)} of {len(done)} signatures are compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
