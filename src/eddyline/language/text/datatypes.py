"""Names of types to types.

Answer   `data_type("DECIMAL", (10, 2))` and the like, with the other common names that a type goes by.
Limits   The name of a type that the language does not have is refused, with the nearest type that it has.
"""

from __future__ import annotations

from eddyline.errors import Position, SyntaxProblem, Unsupported
from eddyline.model.datatypes import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal

_TYPES = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
}
_NEAREST = {
    "SMALLINT": "INT",
    "TINYINT": "INT",
    "HUGEINT": "BIGINT",
    "FLOAT": "DOUBLE",
    "REAL": "DOUBLE",
    "CHAR": "STRING",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "UUID": "STRING",
}
KNOWN = "BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, DATE, TIMESTAMP, STRUCT(a type, …), type[]"


def data_type(word: str, sizes: tuple[int, ...] = (), position: Position | None = None) -> DataType:
    """The type of that name.

    >>> str(data_type("decimal", (10, 2)))
    'DECIMAL(10, 2)'
    """
    upper = word.upper()
    if upper in ("DECIMAL", "NUMERIC"):
        precision, scale = (sizes + (0,))[:2] if sizes else (18, 3)
        if len(sizes) > 2 or not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise SyntaxProblem(
                f"DECIMAL({', '.join(map(str, sizes))}) is not a type",
                hint="DECIMAL(p, s) with p from 1 to 38 and s from 0 to p",
                position=position,
            )
        return decimal(precision, scale)
    if upper in ("STRUCT", "ARRAY", "LIST", "MAP"):
        raise Unsupported(
            f"{word} cannot stand here",
            hint="columns are declared as STRUCT(a BIGINT, …) or BIGINT[]; there is no MAP",
            position=position,
        )
    if upper not in _TYPES:
        hint = f"the nearest is {_NEAREST[upper]}" if upper in _NEAREST else f"types are {KNOWN}"
        raise Unsupported(f"there is no type {word}", hint=hint, position=position)
    if sizes:
        raise Unsupported(f"type {word} takes no size", hint=f"write {_TYPES[upper]}", position=position)
    return _TYPES[upper]
