"""Boards behind ``ports.board``."""
