"""Auctions joined with the bids of their first minute."""

from eddyline import Session

with Session() as session:
    session.execute("""
        CREATE STREAM auctions (item BIGINT, seller STRING, ts TIMESTAMP) WITH (time = 'ts');
        CREATE STREAM bids (item BIGINT, price DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
    """)
    early = session.query(
        "early",
        "SELECT a.seller, b.price FROM auctions [RANGE 1 MINUTE] a, bids [RANGE 1 MINUTE] b WHERE a.item = b.item",
    )
    session.push("auctions", [(7, "ada", "2024-01-01 12:00:00"), (8, "bob", "2024-01-01 12:00:30")])
    session.push(
        "bids",
        [(7, 120.0, "2024-01-01 12:00:50"), (7, 130.0, "2024-01-01 12:01:10"), (8, 150.0, "2024-01-01 12:01:20")],
    )
    session.run()
    for row in early.table().to_pylist():
        print(row["_ts"], row["seller"], row["price"])
