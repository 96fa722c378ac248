"""Texts: by characters (code points), never by bytes.

Answer   Kernels over Arrow strings. Where Arrow takes only a constant (a pattern, a width) and the query gives a
         column, the kernel runs once per distinct value of that column.
Limits   `reverse` turns code points around, so combining marks change their letter. LIKE has no escape character, as in
         DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.datatypes import BIGINT, BOOLEAN, STRING, DataType
from eddyline.model.expressions.expression import Call
from eddyline.operators.expressions.vectors import (
    Frame,
    Kernel,
    Vector,
    boolean,
    constant,
    from_arrow,
    is_arrow,
    spread,
    to_arrow,
    validity,
)
from eddyline.state.plain_arrays import bytes_array

#: The characters that trim removes: those of Unicode category Zs. Tabs and line ends stay.
SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
#: Parameters beyond these are as good as infinite.
_FAR = 2**31 - 1
#: The largest offset and length of a part of a text.
_WIDE = 2**32 - 1

#: A text function whose parameters are constants: (texts, parameter, …) to values; None: a failure.
Plain = Callable[..., Any]


def parametric(plain: Plain, result: DataType) -> Callable[[Call], Kernel]:
    """A kernel for functions whose first argument varies and whose other arguments usually do not."""

    def make(call: Call) -> Kernel:
        kinds = [a.type for a in call.args[1:]]

        def kernel(frame: Frame, texts: Vector, *parameters: Vector) -> Vector:
            if all(_is_constant(p) for p in parameters):
                values = [_constant_of(p) for p in parameters]
                if any(v is None for v in values):
                    return constant(None, result)
                return _as_vector(plain(texts.values, *values), result, frame, _has_text(texts))
            return _per_distinct(plain, result, frame, texts, parameters, kinds)

        return kernel

    return make


def _is_constant(v: Vector) -> bool:
    return isinstance(v.values, pa.Scalar) or (isinstance(v.values, np.ndarray) and len(v.values) == 1)


def _constant_of(v: Vector) -> Any:
    if isinstance(v.values, pa.Scalar):
        return v.values.as_py()
    return None if v.valid is not None and not v.valid[0] else int(v.values[0])


def _has_text(texts: Vector) -> Any:
    valid = validity(texts)
    return np.ones(1, np.bool_) if valid is None else valid


def _as_vector(values: Any, result: DataType, frame: Frame, had: Any) -> Vector:
    """An Arrow result as a vector; a null where there was a text is an issue."""
    found = Vector(values) if is_arrow(result) else boolean(values) if result == BOOLEAN else None
    if found is None:
        array = pa.array([values.as_py()], result.arrow) if isinstance(values, pa.Scalar) else values.cast(result.arrow)
        found = from_arrow(array, result)
    valid = validity(found)
    if valid is not None:
        frame.spoil("wrong argument", ~valid & had, None)
    return found


def _per_distinct(
    plain: Plain, result: DataType, frame: Frame, texts: Vector, parameters: tuple[Vector, ...], kinds: list[DataType]
) -> Vector:
    rows = frame.rows
    if rows == 0:
        return Vector(pa.array([], result.arrow)) if is_arrow(result) else Vector(np.empty(0, result.numpy))
    columns = [to_arrow(p, k, rows) for p, k in zip(parameters, kinds, strict=True)]
    source = spread(texts.values, rows)
    keys = pa.table({str(i): c for i, c in enumerate(columns)}).append_column("row", pa.array(np.arange(rows)))
    grouped = keys.group_by([str(i) for i in range(len(columns))], use_threads=False).aggregate([("row", "list")])
    lists = grouped.column("row_list").combine_chunks()
    places = lists.values.to_numpy()
    bounds = lists.offsets.to_numpy()
    pieces = []
    for g, values in enumerate(zip(*(grouped.column(str(i)).to_pylist() for i in range(len(columns))), strict=True)):
        part = source.take(pa.array(places[bounds[g] : bounds[g + 1]]))
        pieces.append(pa.nulls(len(part), result.arrow) if None in values else plain(part, *values).cast(result.arrow))
    order = np.empty(rows, np.int64)
    order[places[bounds[0] :]] = np.arange(rows)
    whole = pa.concat_arrays([p.combine_chunks() if isinstance(p, pa.ChunkedArray) else p for p in pieces]).take(
        pa.array(order)
    )
    had = _has_text(texts)
    for p in parameters:
        valid = validity(p)
        had = had if valid is None else had & valid
    return _as_vector(whole, result, frame, had)


def _simple(function: Callable[[Any], Any]) -> Callable[[Call], Kernel]:
    return lambda call: lambda frame, a: Vector(function(a.values))


def length(frame: Frame, a: Vector) -> Vector:
    counted = pc.utf8_length(a.values)
    if isinstance(counted, pa.Scalar):
        return constant(counted.as_py(), BIGINT)
    return from_arrow(counted.cast(pa.int64()), BIGINT)


def make_concat(call: Call) -> Kernel:
    leaves_out = call.function == "concat"

    def join(frame: Frame, *args: Vector) -> Vector:
        # Arrow's own way to skip nulls goes wrong in rows where all are null.
        texts = (pc.fill_null(a.values, "") if leaves_out else a.values for a in args)
        return Vector(pc.binary_join_element_wise(*texts, pa.scalar("")))

    return join


def like(texts: Any, pattern: str) -> Any:
    return pc.match_like(texts, pattern.replace("\\", "\\\\"))


def ilike(texts: Any, pattern: str) -> Any:
    return like(pc.utf8_lower(texts), pc.utf8_lower(pa.scalar(pattern)).as_py())


def position(texts: Any, part: str) -> Any:
    """Where the part begins, in characters from 1; 0 where it does not occur."""
    if part == "":
        return pc.if_else(pc.is_valid(texts), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
    found = pc.match_substring(texts, part)
    before = pc.list_element(pc.split_pattern(texts, part, max_splits=1), 0)
    return pc.if_else(found, pc.add(pc.utf8_length(before).cast(pa.int64()), 1), pa.scalar(0, pa.int64()))


def replace(texts: Any, old: str, new: str) -> Any:
    return texts if old == "" else pc.replace_substring(texts, old, new)


def _clip(n: int) -> int:
    return max(-_FAR, min(_FAR, n))


def _slice(texts: Any, start: int, stop: int | None) -> Any:
    return pc.utf8_slice_codeunits(texts, start, stop)


def _refused(texts: Any) -> Any:
    """Null for each text: DuckDB refuses the parameter."""
    return pa.scalar(None, pa.string()) if isinstance(texts, pa.Scalar) else pa.nulls(len(texts), pa.string())


def left(texts: Any, n: int) -> Any:
    return _refused(texts) if n > _WIDE else _slice(texts, 0, _clip(n))


def right(texts: Any, n: int) -> Any:
    n = _clip(n)
    return _slice(texts, 0, 0) if n == 0 else _slice(texts, -n, None)


def substr(texts: Any, start: int, count: int | None = None) -> Any:
    """From `start` (1 is the first, -1 the last character), `count` characters on, or back where it is negative."""
    if not -_WIDE - 1 <= start <= _WIDE or not -_WIDE - 1 <= (count or 0) <= _WIDE:
        return _refused(texts)
    start = _clip(start)
    if count is None:
        return _slice(texts, start - 1 if start > 0 else start, None)
    count = _clip(count)
    if start < 0:
        return _substr_from_end(texts, start, count)
    first, last = sorted((start - 1, start - 1 + count))
    return _slice(texts, max(first, 0), max(last, 0))


def _substr_from_end(texts: Any, start: int, count: int) -> Any:
    first, last = sorted((start, start + count))
    # Counted from the end, a place past it is no longer negative.
    return _slice(texts, max(first, -_FAR), None if last >= 0 else last)


def _trim(function: Callable[..., Any]) -> Plain:
    def trim(texts: Any, characters: str = SPACES) -> Any:
        return texts if characters == "" else function(texts, characters=characters)

    return trim


def _pad(before: bool) -> Plain:
    def pad(texts: Any, width: int, fill: str) -> Any:
        """Filled or cut to the width; null where there is nothing to fill with."""
        width = max(0, width)
        if isinstance(texts, pa.Scalar):
            return pad(pa.array([texts.as_py()], pa.string()), width, fill)[0]
        cut = pc.utf8_slice_codeunits(texts, 0, width)
        lengths = pc.fill_null(pc.utf8_length(cut), width).to_numpy(zero_copy_only=False)
        missing, index = np.unique(width - lengths, return_inverse=True)
        endless = fill * (int(missing.max(initial=0)) // len(fill) + 1) if fill else ""
        fills = pa.array([endless[:m] if fill or m == 0 else None for m in missing.tolist()], pa.string()).take(
            pa.array(index)
        )
        return pc.binary_join_element_wise(*((fills, cut) if before else (cut, fills)), pa.scalar(""))

    return pad


def split_part(texts: Any, separator: str, n: int) -> Any:
    """The n-th piece, from 1, or from the end where n is negative; empty where there is none."""
    if isinstance(texts, pa.Scalar):
        return split_part(pa.array([texts.as_py()], pa.string()), separator, n)[0]
    if separator == "":
        n = _clip(n)
        return _slice(texts, 0, 0) if n == 0 else _slice(texts, n - 1 if n > 0 else n, n if n > 0 else n + 1 or None)
    if not len(texts):
        return texts
    # Loaded with the first call: `eddyline check` computes constants without compiled code.
    from eddyline.kernels.texts.text import nth_pieces
    from eddyline.state.columns import string_buffers

    packed, found = nth_pieces(*string_buffers(texts), np.frombuffer(separator.encode(), np.uint8), _clip(n))
    return bytes_array(pa.string(), packed, found, validity(Vector(texts)))


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "lower": _simple(pc.utf8_lower),
    "upper": _simple(pc.utf8_upper),
    "reverse": _simple(pc.utf8_reverse),
    "length": lambda call: length,
    "||": make_concat,
    "concat": make_concat,
    "like": parametric(like, BOOLEAN),
    "ilike": parametric(ilike, BOOLEAN),
    "contains": parametric(pc.match_substring, BOOLEAN),
    "starts_with": parametric(pc.starts_with, BOOLEAN),
    "ends_with": parametric(pc.ends_with, BOOLEAN),
    "strpos": parametric(position, BIGINT),
    "replace": parametric(replace, STRING),
    "substr": parametric(substr, STRING),
    "left": parametric(left, STRING),
    "right": parametric(right, STRING),
    "trim": parametric(_trim(pc.utf8_trim), STRING),
    "ltrim": parametric(_trim(pc.utf8_ltrim), STRING),
    "rtrim": parametric(_trim(pc.utf8_rtrim), STRING),
    "lpad": parametric(_pad(before=True), STRING),
    "rpad": parametric(_pad(before=False), STRING),
    "split_part": parametric(split_part, STRING),
}
