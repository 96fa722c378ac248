"""The job on the driver: session, layout, ledger, queries that come and go."""
