"""Commands about one job that runs or has ended, found by its checkpoint folder."""
