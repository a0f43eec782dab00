"""The fabric from elsewhere: ``ports.fabric.Fabric`` over HTTP."""

from taskfabric.remote.fabric import RemoteFabric

__all__ = ["RemoteFabric"]
