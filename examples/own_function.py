"""A function of one's own in a query: distances on a globe, computed on whole columns with NumPy."""

import numpy as np

from eddyline import Session


def kilometres(lat: np.ndarray, lon: np.ndarray, other_lat: np.ndarray, other_lon: np.ndarray) -> np.ndarray:
    """The distance of two points, for every row of the columns."""
    a, b, c, d = (np.radians(x) for x in (lat, lon, other_lat, other_lon))
    h = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(h))


with Session() as session:
    session.function("kilometres", kilometres, ["DOUBLE"] * 4, "DOUBLE", arrays="numpy")
    session.execute("CREATE STREAM taxis (taxi STRING, lat DOUBLE, lon DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
    session.execute("CREATE STREAM calls (street STRING, lat DOUBLE, lon DOUBLE, ts TIMESTAMP) WITH (time = 'ts')")
    near = session.query(
        "near",
        """SELECT c.street, t.taxi, round(kilometres(t.lat, t.lon, c.lat, c.lon), 1) AS km
           FROM taxis [RANGE 5 MINUTES] t, calls [RANGE 1 MINUTE] c WHERE kilometres(t.lat, t.lon, c.lat, c.lon) < 3""",
    )
    session.push("taxis", [("red", 52.52, 13.41, "2024-01-01 08:00:00"), ("blue", 52.40, 13.05, "2024-01-01 08:00:10")])
    session.push("calls", [("Linienstr.", 52.53, 13.40, "2024-01-01 08:00:30")])
    session.run(once=True)
    for row in near.table().to_pylist():
        print(row["street"], row["taxi"], row["km"])
