"""Help for tests: streams written as text tables, and a clock that the test moves."""
