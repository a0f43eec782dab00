"""The workers: one daemon for each agent card. It needs a URL and a token, and never the database.

    python -m workers.main NAME [--once]

``loop.py`` reads aloud what a worker does; every other file is one thing that it needs for that.
"""
