"""Just-in-time joins: producers make what consumers can use."""
