"""`python -m bench.micro [NAME …]`: the micro benchmarks, all or by name."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("joins", "aggregates")

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        import_module(f"bench.micro.{name}").main()
