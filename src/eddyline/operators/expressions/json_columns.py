"""JSON in texts, on whole columns.

Answer   Kernels of json_extract, json_extract_string, json_array_length and json_valid. The result for a text that is
         no JSON is NULL, and is counted. It is NULL too where a text has no value at the path.
Limits   The path is a literal. The texts stay in Arrow's buffers; `kernels/texts/json_text.py` walks over their bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from eddyline.kernels.texts import json_text
from eddyline.model.expressions.expression import Call, Literal
from eddyline.model.expressions.json_path import read_path
from eddyline.operators.expressions.vectors import Frame, Kernel, Vector, spread
from eddyline.state.columns import string_buffers, validity
from eddyline.state.plain_arrays import bytes_array


def _path(call: Call) -> json_text.Path:
    literal = call.args[1] if len(call.args) > 1 else None
    steps = read_path(str(literal.value)) if isinstance(literal, Literal) else ()
    names = [step.encode() for step in steps if isinstance(step, str)]
    numbers = iter(range(len(names)))
    return json_text.Path(
        np.array([next(numbers) if isinstance(step, str) else -1 for step in steps], np.int64),
        np.array([0 if isinstance(step, str) else step for step in steps], np.int64),
        np.cumsum([0, *map(len, names)]).astype(np.int64),
        np.frombuffer(b"".join(names) or b" ", np.uint8),
    )


class _Located:
    """Where the values of a column of texts are."""

    def __init__(self, frame: Frame, values: Vector, path: json_text.Path) -> None:
        texts = spread(values.values, frame.rows)
        self.there = validity(texts)
        offsets, self.data = string_buffers(texts)
        self.states, self.starts, self.ends = json_text.locate(offsets, self.data, path)
        self.malformed = self.states == json_text.MALFORMED
        if self.there is not None:
            self.malformed &= self.there

    def known(self, frame: Frame) -> np.ndarray:
        """The rows that have a value; texts that are no JSON are counted."""
        frame.spoil("json", self.malformed, None)
        found: np.ndarray = self.states == json_text.FOUND
        return found if self.there is None else found & self.there


def _extract(plain: bool) -> Callable[[Call], Kernel]:
    def make(call: Call) -> Kernel:
        path = _path(call)

        def kernel(frame: Frame, values: Vector, *_: Vector) -> Vector:
            located = _Located(frame, values, path)
            known = located.known(frame)
            offsets, data, there = json_text.written(located.data, located.states, located.starts, located.ends, plain)
            return Vector(bytes_array(pa.string(), offsets, data, known & there))

        return kernel

    return make


def _length(call: Call) -> Kernel:
    path = _path(call)

    def kernel(frame: Frame, values: Vector, *_: Vector) -> Vector:
        located = _Located(frame, values, path)
        lengths = json_text.lengths(located.data, located.states, located.starts, located.ends)
        return Vector(lengths, located.known(frame))

    return kernel


def _valid(call: Call) -> Kernel:
    path = _path(call)

    def kernel(frame: Frame, values: Vector) -> Vector:
        located = _Located(frame, values, path)
        return Vector(~located.malformed, located.there)

    return kernel


MAKERS: dict[str, Callable[[Call], Kernel]] = {
    "json_extract": _extract(plain=False),
    "json_extract_string": _extract(plain=True),
    "json_array_length": _length,
    "json_valid": _valid,
}
