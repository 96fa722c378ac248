"""The automaton of event patterns: traces, runs, matches and constraints, event by event."""
