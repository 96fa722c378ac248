"""On Spark: two streaming DataFrames joined within a minute, the results counted by further Spark code.

Needs pyspark and a Java runtime. `spark.readStream.format("kafka")` and every other streaming source work in the same
way.
"""

import datetime
import os
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as parquet

# Spark's workers run this interpreter; Spark reads it when the session is made.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from eddyline import Session


def write(folder: str, seconds: list[int], **columns: list) -> None:
    times = [datetime.datetime(2024, 1, 1, 12) + datetime.timedelta(seconds=second) for second in seconds]
    os.makedirs(folder)
    parquet.write_table(pa.table({**columns, "ts": pa.array(times, pa.timestamp("us", "UTC"))}), f"{folder}/1.parquet")


with tempfile.TemporaryDirectory() as folder:
    write(f"{folder}/auctions", [0, 30], item=[7, 8], seller=["ada", "bob"])
    write(f"{folder}/bids", [50, 70, 80, 85], item=[7, 7, 8, 8], price=[120.0, 130.0, 150.0, 90.0])
    spark = (
        SparkSession.builder.master("local[2]").appName("auctions").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    with Session(spark=spark, checkpoint=f"{folder}/state") as session:
        auctions = spark.readStream.schema("item long, seller string, ts timestamp").parquet(f"{folder}/auctions")
        bids = spark.readStream.schema("item long, price double, ts timestamp").parquet(f"{folder}/bids")
        session.stream("auctions", auctions, time="ts")
        session.stream("bids", bids, time="ts")
        early = session.query(
            "early",
            "SELECT a.seller, b.price FROM auctions [RANGE 1 MINUTE] a, bids [RANGE 1 MINUTE] b WHERE a.item = b.item",
        )
        session.run()
        for row in early.to_dataframe().groupBy("seller").count().orderBy("seller").collect():
            print(row["seller"], row["count"])
    spark.stop()
