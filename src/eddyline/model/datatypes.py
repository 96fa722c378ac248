"""Column types, with their Arrow and NumPy forms.

Answer   Seven scalar types and DECIMAL(p, s); STRUCT and ARRAY of any of them, within each other too. NULL is the type
         of the bare literal NULL until something gives it one.
Limits   TIMESTAMP is int64 microseconds without a zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Loaded with the first column: `eddyline check` knows types and has no columns.
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DataType:
    """One column type; compare with `==`.

    >>> decimal(10, 2).arrow
    Decimal128Type(decimal128(10, 2))
    """

    name: str
    precision: int = 0
    scale: int = 0
    #: Of a STRUCT its fields; of an ARRAY one part, its element.
    parts: tuple[tuple[str, DataType], ...] = ()

    def __str__(self) -> str:
        if self.name == "STRUCT":
            return f"STRUCT({', '.join(f'{_shown(name)} {kind}' for name, kind in self.parts)})"
        if self.name == "ARRAY":
            return f"{self.element}[]"
        return f"DECIMAL({self.precision}, {self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def arrow(self) -> pa.DataType:
        plain = _arrow_types().get(self.name)
        if plain is not None:
            return plain
        import pyarrow as pa

        if self.name == "STRUCT":
            return pa.struct([(name, kind.arrow) for name, kind in self.parts])
        return pa.list_(self.element.arrow) if self.name == "ARRAY" else pa.decimal128(self.precision, self.scale)

    @property
    def numpy(self) -> np.dtype[np.generic] | None:
        """The dtype of its plain array form; None for STRING, DECIMAL and nested types, which have none."""
        return _dtypes().get(self.name)

    @property
    def is_nested(self) -> bool:
        return self.name in ("STRUCT", "ARRAY")

    @property
    def element(self) -> DataType:
        """Of an ARRAY: the type of its elements."""
        return self.parts[0][1]

    @property
    def is_number(self) -> bool:
        return self.name in ("INT", "BIGINT", "DOUBLE", "DECIMAL")

    @property
    def is_integer(self) -> bool:
        return self.name in ("INT", "BIGINT")

    @property
    def is_temporal(self) -> bool:
        return self.name in ("DATE", "TIMESTAMP")


BOOLEAN = DataType("BOOLEAN")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
NULL = DataType("NULL")
#: Several values in one, in the order of their bytes: arguments of ARG_MAX and of aggregates in event order. Never a
#: column.
BYTES = DataType("BYTES")
#: An INTERVAL literal such as INTERVAL '5 minutes': int64 microseconds. It exists in expressions only, never as a
#: column.
INTERVAL = DataType("INTERVAL")


#: The first number above the range of a type of whole numbers; its negative is the least of the range.
FIRST_ABOVE = {"INT": 1 << 31, "BIGINT": 1 << 63}


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    """Arrow's form of the types without parameters."""
    import pyarrow as pa

    return {
        "BOOLEAN": pa.bool_(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us"),
        "NULL": pa.null(),
        "BYTES": pa.binary(),
        "INTERVAL": pa.int64(),
    }


@cache
def _dtypes() -> dict[str, np.dtype[np.generic]]:
    """NumPy's form of the types that have one."""
    import numpy as np

    return {
        "BOOLEAN": np.dtype(np.bool_),
        "INT": np.dtype(np.int32),
        "BIGINT": np.dtype(np.int64),
        "DOUBLE": np.dtype(np.float64),
        "DATE": np.dtype(np.int32),
        "TIMESTAMP": np.dtype(np.int64),
        "INTERVAL": np.dtype(np.int64),
    }


def decimal(precision: int, scale: int) -> DataType:
    return DataType("DECIMAL", precision, scale)


def array(element: DataType) -> DataType:
    """
    >>> str(array(BIGINT))
    'BIGINT[]'
    """
    return DataType("ARRAY", parts=(("element", element),))


def struct(parts: Iterable[tuple[str, DataType]]) -> DataType:
    """
    >>> str(struct([("a", BIGINT), ("b c", array(STRING))]))
    'STRUCT(a BIGINT, "b c" STRING[])'
    """
    return DataType("STRUCT", parts=tuple(parts))


def _shown(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def from_arrow(kind: pa.DataType) -> DataType | None:
    """The type of ours that holds every value of an Arrow type without loss, or None.

    >>> import pyarrow as pa
    >>> str(from_arrow(pa.int16()))
    'INT'
    """
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        small = kind.bit_width < 32 or kind == pa.int32()
        return INT if small else (None if kind == pa.uint64() else BIGINT)
    if pa.types.is_floating(kind):
        return DOUBLE
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return STRING
    if pa.types.is_date(kind):
        return DATE
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return decimal(kind.precision, kind.scale)
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = from_arrow(kind.value_type)
        return None if element is None else array(element)
    if pa.types.is_struct(kind):
        parts = [(field.name, from_arrow(field.type)) for field in kind]
        known = [(name, part) for name, part in parts if part is not None]
        return struct(known) if len(known) == len(parts) and parts else None
    return NULL if pa.types.is_null(kind) else None
