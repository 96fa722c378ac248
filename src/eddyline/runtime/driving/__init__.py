"""What both drivers do alike: sinks of queries, control records, requests, tables that are read again, reports."""
