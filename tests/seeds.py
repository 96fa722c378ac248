"""Where random cases begin.

Answer   `first_seed(apart)` is the first seed of a suite: `EDDYLINE_SEED` (0 without it) plus a distance that keeps suites apart.
Limits   One variable for all suites; `make soak` sets another value in each round and prints it.
"""

from __future__ import annotations

import os


def first_seed(apart: int = 0) -> int:
    return int(os.environ.get("EDDYLINE_SEED", "0")) + apart
