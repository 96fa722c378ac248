"""Queries that are added and dropped while rows flow: each sees the rows after its start, and disturbs nobody."""

from eddyline import Session

with Session() as session:
    session.execute("CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
    every = session.query("every", "SELECT symbol, price FROM trades")

    session.push("trades", [("abc", 10.0, "2024-01-01 12:00:01"), ("xyz", 20.0, "2024-01-01 12:00:02")])
    session.step()

    later = session.query("later", "SELECT symbol, price FROM trades")  # starts after 12:00:02, the newest row so far
    session.push("trades", [("abc", 11.0, "2024-01-01 12:00:03"), ("xyz", 21.0, "2024-01-01 12:00:04")])
    session.step()
    # 21.0 waits: a row of the same time could still come before it.
    print("later saw", [row["price"] for row in later.table().to_pylist()])

    session.drop("later")
    session.push("trades", [("abc", 12.0, "2024-01-01 12:00:05")])
    session.run()
    print("every saw", [row["price"] for row in every.table().to_pylist()])
