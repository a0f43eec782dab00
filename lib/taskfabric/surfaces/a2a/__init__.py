"""A2A v1.0: every agent behind an address of its own, synchronously, each call a task on the board."""
