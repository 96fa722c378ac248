"""Exact counts of what a join node did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    probes: int = 0
    #: Rows whose probe had been made for another group, or for this one among others.
    probes_shared: int = 0
    #: Stored rows that probes looked at.
    visited: int = 0
    #: Combinations of fewer references than the whole join has.
    partials: int = 0
    seconds: float = 0.0
    #: Pairs of stretches that were looked at, those of them that were skipped or passed, and tests that were left out.
    zone_pairs: int = 0
    zones_skipped: int = 0
    zones_passed: int = 0
    conditions_avoided: int = 0
    rows_in: int = 0
    rows_out: int = 0
