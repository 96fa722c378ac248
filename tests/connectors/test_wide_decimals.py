"""Wide DECIMALs between precisions and scales, against Python's Decimal: what is read is exact, or a dead letter."""

import json
from decimal import ROUND_DOWN, Decimal, localcontext
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline import Session
from eddyline.connectors.formats.conversion import convert
from eddyline.model.datatypes import BIGINT, INT, DataType, decimal
from tests.seeds import cases, first_seed

#: Values of DECIMAL(38, 26) that Arrow's cast to DECIMAL(38, 30) turned into others, and one that fits.
WIDE = [
    Decimal("-361553793.38818641340010488968000000"),
    Decimal("298118897185.00000000000000000000000000"),
    Decimal("12345678.5"),
]


def expected(value: Decimal, kind: DataType) -> Decimal | int | None:
    """The value in the type; None: it does not fit."""
    if kind in (INT, BIGINT):
        most = 2 ** (31 if kind == INT else 63)
        return int(value) if value == int(value) and -most <= value < most else None
    with localcontext(prec=200):
        cut = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_DOWN)
        return cut if cut == value and abs(cut) < Decimal(10) ** (kind.precision - kind.scale) else None


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + cases(3)))
def test_decimals_of_any_width(seed: int) -> None:
    draw = Random(seed)
    for _ in range(150):
        digits = draw.choice((18, 30, 38, 38, 76))
        scale = draw.randint(0, min(digits, 37))
        precision = draw.randint(1, 38)
        kind = draw.choice((decimal(precision, draw.randint(0, precision)), BIGINT, INT))
        values: list[Decimal | None] = [None]
        with localcontext(prec=200):
            for _ in range(8):
                zeros = 10 ** draw.randint(0, scale)
                number = draw.randint(0, 10 ** draw.randint(1, digits) - 1) // zeros * zeros * draw.choice((1, -1))
                values.append(Decimal(number).scaleb(-scale))
        source = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
        column, fits = convert(pa.chunked_array([pa.array(values, source)]).slice(draw.randint(0, 2)), kind)
        values = values[len(values) - len(column) :]
        wanted = [None if value is None else expected(value, kind) for value in values]
        assert column.to_pylist() == wanted, (source, kind)
        good = [value is None or found is not None for value, found in zip(values, wanted, strict=True)]
        assert ([True] * len(values) if fits is None else fits.to_pylist()) == good, (source, kind)


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + cases(3)))
def test_texts_of_any_length(seed: int) -> None:
    draw = Random(seed)
    for _ in range(300):
        precision = draw.randint(1, 38)
        kind = decimal(precision, draw.randint(0, precision))
        value = Decimal(draw.randint(0, 10 ** draw.randint(1, 38) - 1) * draw.choice((1, -1))).scaleb(
            -draw.randint(-5, 38)
        )
        for text in (format(value, "f"), format(value, "e")):
            column, fits = convert(pa.chunked_array([[text, "0"]]), kind)
            wanted = expected(value, kind)
            assert column.to_pylist() == [wanted, 0], (text, kind)
            assert ([True, True] if fits is None else fits.to_pylist()) == [wanted is not None, True], (text, kind)


@pytest.mark.parametrize("way", ["csv", "jsonl", "parquet", "pushed"])
def test_what_does_not_fit_is_a_dead_letter(tmp_path: Path, way: str) -> None:
    table = pa.table({"d": pa.array(WIDE, pa.decimal128(38, 26)), "ts": pa.array([1, 2, 3], pa.timestamp("us"))})
    texts = [(format(value, "f"), f"1970-01-01 00:00:00.00000{n}") for n, value in enumerate(WIDE, 1)]
    if way == "csv":
        (tmp_path / "s.csv").write_text("d,ts\n" + "".join(f"{value},{instant}\n" for value, instant in texts))
    elif way == "jsonl":
        (tmp_path / "s.jsonl").write_text(
            "".join(json.dumps({"d": value, "ts": instant}) + "\n" for value, instant in texts)
        )
    elif way == "parquet":
        pq.write_table(table, tmp_path / "s.parquet")
    source = "" if way == "pushed" else f", format = '{way}', path = '{tmp_path}/s.{way}'"
    with Session() as session:
        session.execute(f"CREATE STREAM s (d DECIMAL(38, 30), ts TIMESTAMP) WITH (time = 'ts'{source})")
        query = session.query("q", "SELECT d FROM s")
        if way == "pushed":
            session.push("s", table)
        session.run()
        assert query.table().column("d").to_pylist() == [expected(WIDE[2], decimal(38, 30))]
        assert len(session.dead_letters("s")) == 2
