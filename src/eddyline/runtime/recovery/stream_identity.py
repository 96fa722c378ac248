"""The properties of a stream that must not change under a checkpoint, for both engines.

Answer   `identity` describes a stream as plain JSON: columns, time, `time_unit`, lateness, sequence, place in the catalog, format, path
         and constraints. Rules may stand in a workflow's file, so there is a digest of them, too, and whether they are
         checked. `check_identities` refuses streams that differ from those of a checkpoint and names the properties.
State    None.
Limits   Two paths are the same if they are equal as absolute paths, or lead to the same file once symbolic links are
         resolved. A relative path begins at the working directory. `files_per_batch`, `delimiter`, `idle` and
         `most_ahead` may change.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from eddyline.errors import CheckpointProblem
from eddyline.model.patterns.constraint import ConstraintSet
from eddyline.model.query import one_line
from eddyline.model.schema import Stream

Identity = dict[str, Any]

#: The name of each property in error texts.
_NAMES = {
    "columns": "columns",
    "time": "time column",
    "unit": "unit of integers as times",
    "lateness": "lateness in microseconds",
    "sequence": "sequence column",
    "place": "place among the declared streams",
    "format": "format",
    "records": "options header and multiline",
    "path": "path",
    "constraints": "constraints",
    "rules": "rules of the constraints",
    "promises": "punctuations",
}
#: Options of files that decide what one record is, with their defaults.
_RECORD_OPTIONS = {"header": "true", "multiline": "false"}


def embedded_identity(stream: Stream) -> Identity:
    """The identity for embedded checkpoints, without CREATE PUNCTUATION: one may be added while the job runs, and after a
    restart."""
    return {**identity(stream), "promises": _promises(replace(stream, promised=()))}


def identity(stream: Stream) -> Identity:
    """The properties of a stream in the form of a checkpoint."""
    options = stream.options
    path = options.get("path", "").strip()
    kind = str(options.get("format", "parquet" if path else "memory")).strip().lower()
    return {
        "columns": [[c.name, str(c.type)] for c in stream.schema.columns],
        "time": stream.time,
        "unit": stream.schema.time_unit or "us",
        "lateness": stream.lateness,
        "sequence": stream.sequence,
        "place": stream.position,
        "format": kind,
        # The position in a file counts its records, which depend on these options.
        "records": [str(options.get(name, plain)).strip().lower() for name, plain in _RECORD_OPTIONS.items()],
        "path": os.path.abspath(path) if path else None,
        "constraints": [one_line(c.text) for c in stream.constraints],
        "rules": [_rules(c) for c in stream.constraints],
        "promises": _promises(stream),
        "real_path": os.path.realpath(path) if path else None,
    }


def _rules(constraints: ConstraintSet) -> str:
    """Name, digest and switch of constraints: they decide which types of events the engine infers for a trace."""
    digest = hashlib.sha256("\n".join(map(str, constraints.rules)).encode()).hexdigest()[:16]
    return f"{constraints.name} {digest}" + (" off" if constraints.settings.constraints == "off" else "")


def _promises(stream: Stream) -> list[str]:
    """The declarations that decide which rows break a promise."""
    given = {
        "key": ", ".join(stream.key) or None,
        "column": stream.punctuation,
        "heralds": stream.herald,
        "remember": stream.remember,
    }
    found = [f"{name} {value}" for name, value in given.items() if value is not None]
    return found + sorted(str(derived) for derived in stream.promised)


def check_identities(
    streams: Iterable[Stream], saved: Mapping[str, Identity], now: Callable[[Stream], Identity] = identity
) -> None:
    """Refuse a job whose streams are not those of the checkpoint."""
    here = {stream.name: stream for stream in streams}
    for name, stream in here.items():
        if name not in saved:
            raise CheckpointProblem(
                f"stream {name} is not in the checkpoint",
                hint="streams cannot be added under a checkpoint: leave it out, or start with an empty checkpoint",
            )
        _check(stream, saved[name], now(stream))
    missing = sorted(saved.keys() - here.keys())
    if missing:
        raise CheckpointProblem(
            f"stream {missing[0]} of the checkpoint is not declared any more",
            hint="declare it; queries may go, streams cannot",
        )


def _check(stream: Stream, then: Identity, now: Identity) -> None:
    if then.get("path") is not None and then.get("real_path") == now["real_path"]:
        now["path"] = then["path"]
    # Older checkpoints have no digests, which are then not compared.
    then = {"constraints": [], "promises": [], "rules": now["rules"], "unit": "us", **then}
    changed = [part for part in _NAMES if then.get(part) != now[part]]
    if not changed:
        return
    both = {_NAMES[part]: (_shown(then.get(part)), _shown(now[part])) for part in changed}
    detail = "; ".join(f"{name}: {before} in the checkpoint, {after} now" for name, (before, after) in both.items())
    hint = "streams cannot change under a checkpoint: restore the declaration, or start with an empty checkpoint"
    if changed == ["path"]:
        hint = (
            "restore the path, or start with an empty checkpoint; if the same files were moved, "
            "make the old path a symbolic link to the new one"
        )
    if changed == ["rules"]:
        hint = "a workflow's file has changed, or SET constraints is off in one of them: restore it, or start with an empty checkpoint"
    raise CheckpointProblem(f"stream {stream.name} is not the one in the checkpoint", detail=detail, hint=hint)


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "(" + ", ".join(" ".join(column) for column in value) + ")"
    return ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
