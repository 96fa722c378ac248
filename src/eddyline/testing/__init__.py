"""Help for tests: streams as drawings, and a clock that the test moves."""
