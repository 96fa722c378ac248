"""From new rows to pairs of rows: probing, filters of keys, zones, shared windows."""
