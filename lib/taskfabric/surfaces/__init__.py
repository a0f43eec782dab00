"""The doors to the hallway: HTTP and the command line. No surface has rules of its own."""
