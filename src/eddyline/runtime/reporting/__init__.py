"""Reports of a running job, their history and the decisions between them, in files below the folder of the job."""
