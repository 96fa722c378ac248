"""How rows find shards, for queries and for queries over queries."""
