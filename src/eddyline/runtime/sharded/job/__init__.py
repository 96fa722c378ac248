"""The job that its shards share: layout, ledger, queries that come and go."""
