"""What a job says of itself while it runs: reports, their history and decisions, in files below its folder."""
