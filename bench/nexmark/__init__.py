"""NEXMark on this engine, embedded and on Spark, and on Flink, in turns over the same rows."""
