"""The planner at run time: samples of stores, and when a group gets another plan."""
