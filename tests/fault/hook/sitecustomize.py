"""Loaded by every Python process that has this folder on its PYTHONPATH: strikes are active before the first line of a
program."""

from tests.fault.strike import activate_from_environment

activate_from_environment()
