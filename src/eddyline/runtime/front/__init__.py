"""What a session hands to an engine: streams from Python, functions of one's own, workflows."""
