"""What the keeper and the ticker of schedules have in common as processes: where the server is, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from taskfabric import logs
from taskfabric.domain.errors import FabricError
from taskfabric.remote import RemoteFabric
from taskfabric.settings import Settings, fabric_home, load
from taskfabric.signals import heard
from taskfabric.surfaces.cli.where import find


def program(name: str, act: Callable[[argparse.Namespace, Settings], int]) -> int:
    """The exit code of ``act``, or of the error that it raised, which is told; what ``name`` is called on the command
    line, with the options that both programs have."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--once", action="store_true", help="one round, told on standard output")
    parser.add_argument("--json", action="store_true", help="as one JSON document")
    parser.add_argument("--leash", action="store_true", help="end when standard input does")
    args = parser.parse_args()
    try:
        rules = load(env=os.environ, home=fabric_home(os.environ, Path.cwd()))
        logs.configure(rules.log.level, rules.log.format)
        return act(args, rules)
    except FabricError as error:
        if args.json:
            print(json.dumps({"error": error.to_json()}))
        print(f"{error.message}\n{error.next}".strip(), file=sys.stderr)
        return error.code


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
