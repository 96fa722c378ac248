"""A group-by that is asked: one template stands, and each request names its parameters, its columns and its window."""

from eddyline import Session

with Session() as session:
    session.execute("CREATE STREAM packets (src STRING, dst STRING, len INT, ts TIMESTAMP) WITH (time = 'ts')")
    session.execute(
        """CREATE TEMPLATE traffic AS SELECT src, dst, SUM(len) AS bytes, COUNT(*) AS packets
           FROM packets [RANGE 60 MINUTES] GROUP BY src, dst"""
    )
    session.push(
        "packets",
        [
            ("ada", "mail", 100, "2024-01-01 08:00:00"),
            ("bob", "mail", 900, "2024-01-01 08:10:00"),
            ("ada", "news", 300, "2024-01-01 08:30:00"),
            ("ada", "mail", 200, "2024-01-01 08:40:00"),
            ("eve", "news", 1, "2024-01-01 08:50:00"),
        ],
    )
    session.run()
    requests = [
        "dst, bytes FROM traffic [RANGE 20 MINUTES] WHERE src = 'ada' GROUP BY dst AS OF TIMESTAMP '2024-01-01 08:45:00'",
        "packets FROM traffic WHERE dst = 'mail' GROUP BY ()",
    ]
    for answer in session.request(requests):
        print(answer.drop_columns(["_ts"]).to_pylist())
