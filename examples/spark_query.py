"""A PySpark program of 25 lines: a streaming DataFrame in, a query of ours, a DataFrame of its results out."""

import os
import sys
import tempfile
from pathlib import Path

# Spark's workers run this interpreter, whatever the shell has set; Spark reads it when its session is made.
os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

from eddyline import Session

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "bids").mkdir()
    Path(folder, "bids/1.csv").write_text("7,120,2024-01-01 12:00:50\n8,150,2024-01-01 12:01:20\n")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    bids = spark.readStream.schema("item long, price double, ts timestamp").csv(f"{folder}/bids")
    with Session(spark=spark, checkpoint=f"{folder}/state") as session:
        session.stream("bids", bids, time="ts")
        dear = session.query("dear", "SELECT item, price FROM bids WHERE price > 100")
        session.run()
        dear.to_dataframe().orderBy("item").show()
    spark.stop()
