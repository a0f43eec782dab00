"""Kanboard's API, served by our board: its procedures, their arguments, results and roles."""
