"""The planner at run time: samples of stores, and when a plan should be left."""
