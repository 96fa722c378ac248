"""Limit orders against quotes: a join on an inequality that leaves out stretches of rows, and a herald that says what
comes next."""

from eddyline import Session

SECOND = 1_000_000
#: Noon of 2024-01-01, in microseconds from 1970.
NOON = 1_704_110_400 * SECOND

with Session() as session:
    session.execute("CREATE STREAM orders (id BIGINT, price INT, ts TIMESTAMP) WITH (time = 'ts')")
    session.execute("CREATE STREAM quotes (price INT, note STRING, ts TIMESTAMP) WITH (time = 'ts', herald = 'note')")
    filled = session.query(
        "filled",
        """SELECT o.id, q.price FROM orders [RANGE 10 MINUTES] o, quotes [RANGE 10 MINUTES] q
           WHERE q.price BETWEEN o.price - 1 AND o.price""",
        heralds="on",
    )
    # Prices climb slowly: orders that stand near each other in time stand near each other in price.
    session.push("orders", [{"id": n, "price": n // 4, "ts": NOON + n * SECOND // 10} for n in range(4_000)])
    session.push(
        "quotes", [{"price": None, "note": "price BETWEEN 700 AND 799 FOR 100 ROWS", "ts": NOON + 400 * SECOND}]
    )
    session.push("quotes", [{"price": 700 + n, "note": None, "ts": NOON + 401 * SECOND + n} for n in range(100)])
    # This quote stands outside the hundred rows, so the herald does not speak of it.
    session.push("quotes", [{"price": 5, "note": None, "ts": NOON + 402 * SECOND}])
    session.run(once=True)
    stats = session.stats()
    print(len(filled.table()), "results")
    print("stretches left out:", stats["zones_skipped"] > 0, "violations:", stats["violations"]["quotes"])
