"""One board for the work of agents and humans: claimed with a lease, finished with a fence, verified by others."""

__version__ = "0.1.0"
