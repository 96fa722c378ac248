"""csv, json and parquet: from bytes to rows that fit their declaration, and back."""
