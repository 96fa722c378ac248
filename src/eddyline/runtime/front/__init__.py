"""What a session and its queries hand to an engine: streams from Python, functions of one's own, workflows."""
