"""What a job writes down to go on after a crash, and what belongs to which job."""
