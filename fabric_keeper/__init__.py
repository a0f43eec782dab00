"""The keeper: a janitor beside the board. Kill it, and work still flows."""
