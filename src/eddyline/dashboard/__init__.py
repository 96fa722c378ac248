"""The dashboard: a page, an interface for programs and metrics over the reports of a job.

It reads the reports and the control folder below a job's folder. Nothing else of the job is read.
"""
