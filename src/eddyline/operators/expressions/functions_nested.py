"""Fields of STRUCTs and elements of ARRAYs, on whole columns.

Answer   `struct_extract` is the field of each value, `array_extract` the element at a place (1 is the first, -1 the
         last), `array_length` the number of elements. An element that does not exist is NULL.
Limits   Values stay in Arrow form; no element is made a Python object.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.model.expressions.expression import Call, Literal
from eddyline.operators.expressions.vectors import Frame, Kernel, Vector, from_arrow, spread


def _field(call: Call) -> Kernel:
    name = call.args[1]
    assert isinstance(name, Literal)
    place = [field for field, _ in call.args[0].type.parts].index(str(name.value))

    def kernel(frame: Frame, values: Vector, _: Vector) -> Vector:
        return from_arrow(pc.struct_field(spread(values.values, frame.rows), [place]), call.type)

    return kernel


def _element(call: Call) -> Kernel:
    def kernel(frame: Frame, values: Vector, index: Vector) -> Vector:
        lists = spread(values.values, frame.rows)
        starts, ends = _bounds(lists)
        wanted = np.broadcast_to(index.values, frame.rows)
        places = np.where(wanted > 0, starts + wanted - 1, ends + wanted)
        there = (wanted != 0) & (places >= starts) & (places < ends)
        if index.valid is not None:
            there = there & index.valid
        if lists.null_count:
            there = there & np.asarray(lists.is_valid())
        return from_arrow(lists.values.take(pa.array(places, mask=~there)), call.type)

    return kernel


def _length(call: Call) -> Kernel:
    def kernel(frame: Frame, values: Vector) -> Vector:
        lists = spread(values.values, frame.rows)
        starts, ends = _bounds(lists)
        return Vector(ends - starts, np.asarray(lists.is_valid()) if lists.null_count else None)

    return kernel


def _bounds(lists: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of each value begin and end."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], offsets[1:]


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "struct_extract": _field,
    "array_extract": _element,
    "array_length": _length,
}
