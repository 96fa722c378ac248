"""What all tests share: random cases that are the same in every run, except in a soak."""

from __future__ import annotations

import os
import shutil
from typing import Any

from hypothesis import HealthCheck, settings

settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("soak" if os.environ.get("EDDYLINE_SOAK") else "same")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tests of the page need a browser: where there is none, say so."""
    asked = [str(one).rstrip("/") for one in terminalreporter.config.args]
    if any(one.endswith("tests") or "tests/browser" in one for one in asked) and not shutil.which("chromedriver"):
        terminalreporter.write_line(
            "THE BROWSER TESTS DID NOT RUN: there is no Chromium here; make browser installs it", yellow=True, bold=True
        )
