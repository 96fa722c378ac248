"""The job on the driver: the session, its settings, errors and figures."""
