"""The package `bench` lies beside `tests`, not on the path of an installed package: make it importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
