"""The figures of a job: one frozen report, and what it is made of."""
