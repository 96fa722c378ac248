"""Control of a running job: statements, records in files, answers to requests."""
