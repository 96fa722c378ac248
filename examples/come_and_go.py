"""Queries that are added and dropped while rows flow: each sees the rows after its start, and disturbs nobody."""

from eddyline import Session

second = 1_000_000
with Session() as session:
    session.execute("CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
    every = session.query("every", "SELECT symbol, price FROM trades")

    session.push("trades", [("abc", 10.0, 1 * second), ("xyz", 20.0, 2 * second)])
    session.step()

    later = session.query("later", "SELECT symbol, price FROM trades")  # starts after 2 s, the newest row so far
    session.push("trades", [("abc", 11.0, 3 * second), ("xyz", 21.0, 4 * second)])
    session.step()
    # 21.0 waits: a row of the same time could still come before it.
    print("later saw", [row["price"] for row in later.table().to_pylist()])

    session.drop("later")
    session.push("trades", [("abc", 12.0, 5 * second)])
    session.run()
    print("every saw", [row["price"] for row in every.table().to_pylist()])
