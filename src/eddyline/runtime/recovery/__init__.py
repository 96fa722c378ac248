"""Checkpoints: the state from which a job continues after a crash, and the identity of their folders."""
