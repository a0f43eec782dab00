"""The fabric from elsewhere: ``ports.fabric.Fabric`` over HTTP, and the line below it that knows no verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taskfabric.remote.fabric import RemoteFabric

__all__ = ["RemoteFabric"]


def __getattr__(name: str) -> object:
    # Late, since the verbs cost a short command more than all the rest of it.
    if name == "RemoteFabric":
        from taskfabric.remote.fabric import RemoteFabric

        return RemoteFabric
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
