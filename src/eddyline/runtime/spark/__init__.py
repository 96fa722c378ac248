"""The driver for Spark Structured Streaming."""
