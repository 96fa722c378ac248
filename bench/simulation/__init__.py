"""A shared window join played under a virtual clock, for the figures of the scheduling paper."""
