"""`python -m bench.micro [NAME …]`: the micro benchmarks, all or by name."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("joins", "aggregates", "instants", "batches", "thresholds", "sizes", "first", "stored", "row_groups")

if __name__ == "__main__":
    chosen, sys.argv[1:] = sys.argv[1:] or list(NAMES), []
    for name in chosen:
        import_module(f"bench.micro.{name}").main()
