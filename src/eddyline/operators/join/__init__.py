"""The one join: a tree of nodes that serves all queries of one signature, and what policies may decide about it."""
