"""What a dashboard costs a job."""
