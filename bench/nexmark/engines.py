"""One query of NEXMark on one engine: csv in, rows dropped.

Answer   `run(engine, query, data, cores, limit)` gives the seconds of the run without start-up, its peak of memory and
         the number of results. On Spark one file per stream is a micro-batch; the job runs twice in one session, and the
         second run counts, all batches of it. Flink runs the job twice in one Java process, first to count its rows;
         `runs` takes several samples, those of Flink and of Spark from one process each.
Limits   The number of changes of a changelog depends on how many rows are put together: for such a query only Flink's
         final rows are counted. `expected` computes the number of rows with DuckDB.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import duckdb
import numpy as np

from bench.nexmark.data import STREAMS, Data
from bench.peers import Result, eddyline_engine, environments, inside

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "nexmark"
#: q6 is not in it: Flink refuses it (`--answers --query q6` shows its words).
FLINK = Path(__file__).with_name("flink.sql")
ENGINES = ("embedded", "spark", "flink")
#: All samples come from one process, which has run the query before.
WARM = ("spark", "flink")
#: Queries whose answer is a changelog.
CHANGING = frozenset({"q4", "q9", "q15", "q16", "q17", "q18", "q19"})
#: The streams as Flink declares them; its event times have milliseconds.
COLUMNS = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, ts TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP(3), "
    "expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP(3), extra STRING",
}


def present() -> list[str]:
    """The queries of examples/nexmark, in the order of their numbers."""
    return sorted((file.stem for file in EXAMPLES.glob("q*.sql")), key=lambda name: int(name[1:]))


def texts(file: Path) -> dict[str, str]:
    """Queries by name, from a file in which `-- q0` stands before each."""
    parts = re.split(r"^-- (q\d+)\n", file.read_text(), flags=re.MULTILINE)[1:]
    return {name: text.strip().rstrip(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def reads(query: str) -> list[str]:
    """The streams that a query reads."""
    return re.findall(r"CREATE STREAM (\w+) \(", (EXAMPLES / f"{query}.sql").read_text())


def cannot(engine: str, query: str) -> str:
    """Why an engine does not run a query; empty when it does."""
    if engine == "flink" and query not in texts(FLINK):
        return "Flink refuses it: OVER takes rows in the order of a time attribute, which groups do not have"
    return environments.absent("flink") if engine == "flink" else ""


def rows_in(query: str, data: Data) -> int:
    return sum(data.rows[stream] for stream in reads(query))


def runs(engine: str, query: str, data: Data, *, times: int, cores: int, limit: float) -> list[Result]:
    """Samples of one engine: several of Flink, whose start takes longer than its runs, one of any other."""
    if engine == "flink":
        return _flink(query, data, times, cores, limit)
    if engine == "spark":
        job, rows = job_of(query, data, files_per_batch=1), rows_in(query, data)
        return eddyline_engine.warm(job, rows, query, times=times, cores=cores, limit=limit)
    return [run(engine, query, data, cores=cores, limit=limit)]


def run(engine: str, query: str, data: Data, *, cores: int, limit: float) -> Result:
    if engine == "flink":
        return _flink(query, data, 1, cores, limit)[0]
    if engine == "spark":
        return runs(engine, query, data, times=1, cores=cores, limit=limit)[0]
    rows = rows_in(query, data)
    with tempfile.TemporaryDirectory(prefix="eddyline-bench-") as name:
        job = job_of(query, data)
        said, watched = eddyline_engine.ran(job, Path(name), engine=engine, write=False, cores=cores, limit=limit)
    if watched.stopped:
        return Result(limit, rows, 0, watched.peak_rss, {"stopped": True})
    details = {"timed_rows": rows, "epochs": said["epochs"], "late": said["late"], "bad": said["bad"]}
    return Result(said["elapsed_s"], rows, said["results"][query], watched.peak_rss, details)


def job_of(query: str, data: Data, files_per_batch: int | None = None) -> str:
    """The example, with the csv files of these data."""
    batches = f", files_per_batch = {files_per_batch}" if files_per_batch else ""
    text = (EXAMPLES / f"{query}.sql").read_text()
    csv = "format = 'csv', header = 'false'"
    text = text.replace("format = 'parquet', path = 'data/side.parquet'", f"{csv}, path = '{data.folder}/csv/side'")
    return re.sub(r"format = 'parquet', path = 'data/(\w+)'", rf"{csv}{batches}, path = '{data.folder}/csv/\1'", text)


def _flink(query: str, data: Data, times: int, cores: int, limit: float) -> list[Result]:
    rows = rows_in(query, data)
    text, counted = flink_query(query, data)
    argument = {"statements": declarations(data), "query": text, "counted": counted, "slots": cores, "times": times}
    report, watched = inside.run("flink", "flink_sql", argument, limit)
    if watched.stopped:
        return [Result(limit, rows, 0, watched.peak_rss, {"stopped": True})]
    shared = {"timed_rows": rows, **{name: value for name, value in report.items() if name != "runs"}}
    return [
        Result(float(sample["seconds"]), rows, int(report["results"]), watched.peak_rss, {**shared, **sample})
        for sample in report["runs"]
    ]


def declarations(data: Data) -> list[str]:
    options = "'connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{}'"
    made = [
        f"CREATE TABLE {stream} ({COLUMNS[stream]}, WATERMARK FOR ts AS ts) WITH ({options.format(data.folder / 'slots' / stream)})"
        for stream in STREAMS
    ]
    return [
        *made,
        f"CREATE TABLE side (`key` BIGINT, `value` STRING) WITH ({options.format(data.folder / 'csv' / 'side')})",
    ]


def flink_query(query: str, data: Data) -> tuple[str, str]:
    """The query in Flink's SQL, and the same without rows of windows that are not over when the streams end."""
    text = texts(FLINK)[query]
    condition, found = "", re.match(r"-- whole: (.*)\n", text)
    if found:
        text = text[found.end() :]
        ends = {
            f"end_of_{stream}": f"TIMESTAMP '{np.datetime64(end // 1000, 'ms').item()}'"
            for stream, end in data.ends.items()
        }
        condition = " WHERE " + found[1].format(**ends)
    return text, f"SELECT * FROM ({text}){condition}"


def expected(query: str, data: Data) -> int:
    """How many rows the answer has, by a batch computation: of a changelog, those that stand at the end."""
    return int(_batch(f"SELECT count(*) FROM ({_oracle(query)})", data)[0][0])


def answer(query: str, data: Data) -> list[tuple]:
    """The rows of the answer, by a batch computation."""
    return _batch(_oracle(query), data)


def _oracle(query: str) -> str:
    return texts(ROOT / "tests" / "oracle" / "nexmark.sql")[query]


def _batch(text: str, data: Data) -> list[tuple]:
    connection = duckdb.connect()
    for stream in STREAMS:
        files = f"read_parquet('{data.folder}/parquet/{stream}/*.parquet', filename = true, file_row_number = true)"
        connection.execute(f"CREATE VIEW {stream} AS SELECT * FROM {files}")
        connection.execute(f"SET VARIABLE end_of_{stream} = (SELECT max(ts) + INTERVAL 1 MICROSECOND FROM {stream})")
    connection.execute(f"CREATE VIEW side AS SELECT * FROM '{data.folder}/parquet/side.parquet'")
    return connection.execute(text).fetchall()
