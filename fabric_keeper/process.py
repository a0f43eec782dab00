"""What the keeper and the ticker of schedules have in common as processes: where the server is, and how they end."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from taskfabric.remote import RemoteFabric
from taskfabric.settings import Settings, fabric_home, load
from taskfabric.signals import heard
from taskfabric.surfaces.cli.where import find


def settings() -> Settings:
    """The settings of this environment. Raises BadInput."""
    return load(env=os.environ, home=fabric_home(os.environ, Path.cwd()))


def connect(name: str) -> RemoteFabric:
    """The server that FABRIC_URL and FABRIC_TOKEN name. Raises Unavailable, NotAuthenticated."""
    where = find(os.environ, Path.cwd())
    return RemoteFabric(where.url, where.token, instance=instance(name))


def instance(name: str) -> str:
    """A name that no other process has, also after a restart."""
    return f"{name}@{os.uname().nodename}-{secrets.token_hex(4)}"


@contextlib.contextmanager
def stopping(*, leash: bool) -> Iterator[threading.Event]:
    """Set by SIGTERM and SIGINT, and, on a leash, by the end of standard input."""
    stop = threading.Event()
    if leash:
        threading.Thread(target=_hold, args=(stop,), name="leash", daemon=True).start()
    with heard((signal.SIGTERM, signal.SIGINT), lambda _: stop.set()):
        yield stop


def _hold(stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    stop.set()
