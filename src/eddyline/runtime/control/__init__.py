"""Control of a running job: statements, control records in files, and the files that answer requests to templates."""
