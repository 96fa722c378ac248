"""Many tiny epochs of a job with every kind of query: memory, files, header, handles, threads and the work of an epoch
stay.

EDDYLINE_EPOCHS says how many (10,000 without it); the figures are printed tenth by tenth.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from statistics import median

import pytest

from tests.runtime.test_growth import Life, cost_against, files_below, resident

EPOCHS = int(os.environ.get("EDDYLINE_EPOCHS", "10000"))
#: Epochs of the young session before it is measured, and turns of 100 epochs each.
YOUNG, TURNS = 1_000, 11
STEP = 50_000
COLUMNS = "id BIGINT, k BIGINT, v BIGINT, type STRING, money DECIMAL(38, 4), done STRING, note STRING, ts TIMESTAMP"
JOB = f"""
SET checkpoint_seconds = 0.5; SET output_seconds = 0.5;
CREATE STREAM a ({COLUMNS}) WITH (time = 'ts', punctuation = 'done', herald = 'note', remember = '10 seconds');
CREATE STREAM b ({COLUMNS}) WITH (time = 'ts', punctuation = 'done', remember = '10 seconds', lateness = '1 second');
CREATE TEMPLATE t WITH (history = '1 second') AS SELECT k, count(*) AS n, sum(money) AS m FROM a [RANGE 2 SECONDS] GROUP BY k;
CREATE REQUESTS asks (id BIGINT, k BIGINT, ts TIMESTAMP) FOR t WITH (time = 'ts');
CREATE STREAM one AS SELECT a.k AS k, b.v AS v FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k;
CREATE STREAM two AS SELECT k, v FROM one UNION ALL SELECT k, v FROM a WHERE v > 3;
CREATE QUERY filter AS SELECT k FROM a WHERE v > 3;
CREATE QUERY pairs AS SELECT a.id AS i, b.id AS j FROM a [PARTITION BY k ROWS 2] a, b [ROWS 5] b WHERE a.k = b.k AND a.v <> b.v;
CREATE QUERY kept AS SELECT a.id AS i, b.id AS j FROM a [RANGE 1 SECOND] FULL JOIN b [RANGE 1 SECOND] ON a.k = b.k;
CREATE QUERY closed AS SELECT a.id AS i, count(*) AS n FROM a, b WHERE a.id = b.id GROUP BY a.id EMIT ON CLOSE;
CREATE QUERY missing AS SELECT a.id AS i FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id);
CREATE QUERY totals AS SELECT k, sum(money) AS s, avg(v) AS m, count(DISTINCT v) AS d FROM a [RANGE 1 SECOND] GROUP BY k;
CREATE QUERY every AS SELECT k, max(v) AS top FROM b [ROWS 20] GROUP BY k EMIT EVERY 1 SECOND;
CREATE QUERY windows AS SELECT window_end, k, count(*) AS n, string_agg(type, '') AS t FROM a GROUP BY HOP(ts, '1 second', '3 seconds'), k;
CREATE QUERY first AS SELECT id, v FROM a [RANGE 2 SECONDS] QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1;
CREATE QUERY before AS SELECT id, lag(v) OVER (PARTITION BY k ORDER BY ts) AS w FROM a;
CREATE QUERY matches AS EVENT SEQ(A x, NOT(C), B y) FROM a TYPE type PARTITION BY k WITHIN 1 SECOND RETURN x.id AS i, y.id AS j;
CREATE QUERY above AS SELECT k, count(*) AS n, window_end FROM two GROUP BY TUMBLE(_ts, '1 second'), k;
CREATE QUERY latest AS SELECT b.id AS i, q.top AS top FROM b JOIN LATEST
  (SELECT k, max(v) AS top FROM a [RANGE 1 SECOND] GROUP BY k EMIT EVERY 1 SECOND) q
  ON b.k = q.k;
"""


def rows(number: int) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What comes in one epoch: a row, or a punctuation or a herald, per stream, and now and then a request."""
    ts = number * STEP
    row = (number, number % 7, number * 7919 % 5, "ABC"[number % 3], "123.4567", None, None, ts)
    mark = (None, None, None, None, None, f"id <= {number - 5}", None, ts)
    said = [(None, None, None, None, None, None, "v >= 0 AND v <= 9 FOR 5 ROWS", ts)] if number % 50 == 0 else []
    first = [row, *said, *([mark] if number % 3 == 0 else [])]
    # Every fifth row of a has no partner in b.
    second = [*([row] if number % 5 else []), *([mark] if number % 4 == 0 else [])]
    return first, second, [(number, number % 7, ts)] if number % 10 == 0 else []


class Many(Life):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, JOB)

    def push(self) -> None:
        for name, given in zip(("a", "b", "asks"), rows(self.epochs), strict=True):
            self.session.push(name, given)

    def held(self) -> dict[str, float]:
        header = self.state / "checkpoint.json"
        return {
            "memory": resident(),
            "files": files_below(self.state),
            "header": header.stat().st_size if header.exists() else 0,
            "handles": len(os.listdir("/proc/self/fd")),
            "threads": threading.active_count(),
        }


@pytest.mark.long
@pytest.mark.timeout(0)
def test_nothing_grows_with_every_feature_on(tmp_path: Path) -> None:
    """What an old session holds is compared with what it held; what its epochs cost, with those of a young session in
    turns: a machine whose load changes within the run slows both."""
    old, tenth = Many(tmp_path / "old"), EPOCHS // 10
    seconds: list[float] = []
    seen: list[dict[str, float]] = []
    for number in range(EPOCHS):
        seconds.append(old.step())
        if number % 100 == 99:
            seen.append(old.held())
        if number % tenth == tenth - 1:
            found = {name: int(median(one[name] for one in seen[-tenth // 100 :])) for name in seen[0]}
            print(f"{number + 1:,} epochs: {1e3 * median(seconds[-tenth:]):.2f} ms,", found, flush=True)
    part = len(seen) // 10
    for name in seen[0]:
        last, second = (median(one[name] for one in some) for some in (seen[-part:], seen[part : 2 * part]))
        assert last <= (1.05 if name == "memory" else 1.2) * second, (name, second, last)
    young = Many(tmp_path / "young")
    for _ in range(YOUNG):
        young.step()
    cost = cost_against(old, young, TURNS)
    print(f"an epoch of the old session against one of the young: {cost:.3f}", flush=True)
    assert cost <= 1.1
    for life in (old, young):
        assert not sum(life.session.stats().get("dead_letters", {}).values())
        life.session.stop()
