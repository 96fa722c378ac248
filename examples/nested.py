"""Orders with lists of items: fields, elements, and one row per item."""

from eddyline import Session

ORDERS = [
    {
        "id": 1,
        "customer": {"name": "ada", "city": "Paris"},
        "items": [{"sku": "tea", "qty": 2}, {"sku": "cup", "qty": 1}],
        "ts": "2024-01-01 12:00:01",
    },
    {"id": 2, "customer": {"name": "bob", "city": "Rome"}, "items": [], "ts": "2024-01-01 12:00:02"},
    {
        "id": 3,
        "customer": {"name": "cyd", "city": "Paris"},
        "items": [{"sku": "tea", "qty": 5}],
        "ts": "2024-01-01 12:00:03",
    },
]

with Session() as session:
    session.execute("""
        CREATE STREAM orders (id BIGINT, customer STRUCT(name STRING, city STRING), items STRUCT(sku STRING, qty INT)[], ts TIMESTAMP)
          WITH (time = 'ts')
    """)
    first = session.query(
        "first", "SELECT id, customer.city, items[1].sku AS sku FROM orders WHERE array_length(items) > 0"
    )
    sold = session.query(
        "sold", "SELECT i.sku, SUM(i.qty) AS qty FROM orders [RANGE 1 HOUR] o, UNNEST(o.items) AS i GROUP BY i.sku"
    )
    session.push("orders", ORDERS)
    session.run(once=True)
    for row in first.table().to_pylist():
        print(row["id"], row["city"], row["sku"])
    for row in sold.table().to_pylist():
        print(row["sku"], row["qty"])
