"""`python -m bench.micro stored`: bytes of memory per stored row of a join, by the growth of this process.

Answer   Two streams with a BIGINT key, a DOUBLE and a TIMESTAMP, with and without a text of 32 characters, joined
         within a window that no row leaves. Prints resident bytes per row that the stores hold.
Limits   Memory of the whole process between 0.1 and 1 million rows per stream; results are none.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline import Session
from eddyline.runtime.figures.memory import resident_bytes

STEP, FIRST, LAST = 20_000, 5, 50


def rows(start: int, text: bool) -> pa.Table:
    numbers = np.arange(start, start + STEP)
    columns = {"k": pa.array(numbers), "price": pa.array(numbers * 0.5)}
    if text:
        columns["s"] = pa.array(np.char.zfill(numbers.astype(str), 32).tolist())
    return pa.table({**columns, "ts": pa.array(numbers * 1_000, pa.timestamp("us"))})


def bytes_per_row(text: bool) -> float:
    columns = "k BIGINT, price DOUBLE, " + "s STRING, " * text + "ts TIMESTAMP"
    with Session() as session:
        for name in "ab":
            session.execute(f"CREATE STREAM {name} ({columns}) WITH (time = 'ts')")
        selected = "a.price" + ", a.s, b.s AS t" * text
        session.query(
            "q", f"SELECT {selected} FROM a [RANGE 10 DAYS] a, b [RANGE 10 DAYS] b WHERE a.k = b.k + 1000000000"
        )
        before = 0
        for step in range(LAST):
            if step == FIRST:
                before = resident_bytes()
            for name in "ab":
                session.push(name, rows(step * STEP, text))
            session.step()
        return (resident_bytes() - before) / (2 * STEP * (LAST - FIRST))


def main() -> None:
    for text in (False, True):
        payload = 24 + 36 * text
        print(f"payload {payload} bytes: {bytes_per_row(text):.0f} bytes per stored row")


if __name__ == "__main__":
    main()
