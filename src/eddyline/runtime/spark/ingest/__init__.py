"""Files and DataFrames as sources of a job on Spark."""
