"""A session that runs in the background: rows are pushed as they happen, results call a function as they come."""

import threading

import pyarrow as pa

from eddyline import Session

alarms: list[str] = []
enough = threading.Event()


def alarm(results: pa.Table) -> None:
    """Called with every table of results, in the thread of the session."""
    alarms.extend(f"{row['machine']}: {row['celsius']} at {row['_ts']:%H:%M:%S}" for row in results.to_pylist())
    if len(alarms) >= 2:
        enough.set()


session = Session()
session.execute("CREATE STREAM readings (machine STRING, celsius DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
session.query("hot", "SELECT machine, celsius FROM readings WHERE celsius > 80")
session.on_results("hot", alarm)
session.start()
for second, celsius in enumerate([60.0, 75.0, 82.0, 90.0, 70.0, 65.0]):
    # A row is answered once a newer one has come: until then one of equal time could still come before it.
    session.push("readings", [("press", celsius, f"2024-01-01 08:00:{second:02d}")])
enough.wait(timeout=30)
session.stop()
print("\n".join(alarms))
