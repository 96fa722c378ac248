"""The order in which a node probes its inputs."""
