"""Commands that read a job or a graph and run nothing."""
