"""The program of a worker.

    FABRIC_URL=… FABRIC_TOKEN=… python -m workers.main NAME [--once]

SIGTERM or SIGINT drains it, a second one gives back at once what it works on. Exit codes are those of the command
line; with ``--once`` 3 says that there was nothing to claim.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from taskfabric import logs
from taskfabric.domain.errors import BadInput, FabricError, NotAuthenticated, NotFound, Unavailable
from taskfabric.remote.fabric import RemoteFabric
from taskfabric.signals import heard
from workers.loop import Options, Worker

log = logging.getLogger("workers.main")  # also where it runs as a program

_PATIENCE: Final = 30.0  # seconds for an answer
_ENDS: Final = (signal.SIGTERM, signal.SIGINT)
_START: Final = 2.0  # seconds between two tries to reach the server at the start


def main() -> None:
    """Ends the process with the exit code."""
    sys.exit(run(sys.argv[1:], os.environ))


def run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """The worker of this command line, until it has drained; the exit code."""
    args = _parser().parse_args(argv)
    try:
        logs.configure(logs.LogLevel(env.get("FABRIC_LOG_LEVEL") or "info"), logs.LogFormat.TEXT)
        return serve(args, env)
    except ValueError:
        log.error("FABRIC_LOG_LEVEL is not one of debug, info, warning, error")  # noqa: TRY400 (an expected end)
        return BadInput.code
    except FabricError as error:
        log.error("not working reason=%r next=%r", error.message, error.next)  # noqa: TRY400 (an expected end)
        if args.json:
            sys.stdout.write(json.dumps({"error": error.to_json()}) + "\n")
        return error.code


def serve(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Work until told to stop; the exit code. Raises FabricError when it cannot begin, or may not go on."""
    url, token = env.get("FABRIC_URL", ""), env.get("FABRIC_TOKEN", "")
    if not url:
        raise BadInput("a worker needs to know its server", next="set FABRIC_URL, or use `fabric worker NAME`")
    if not token:
        raise NotAuthenticated("a worker needs a token of its own", next=f"`fabric token create {args.name}` makes one")
    instance = f"{args.name}@{os.uname().nodename}-{secrets.token_hex(2)}"
    options = Options(
        url=url,
        instance=instance,
        folder=folder_of(args.name, url, env),
        roots=roots_of(env),
        poll=args.poll,
        grace=args.grace,
        once=args.once,
        patient=args.leash,
    )
    stops = Stops()
    with RemoteFabric(url, token, timeout=_PATIENCE, instance=instance) as fabric, heard(_ENDS, stops.drain):
        if args.leash:
            threading.Thread(target=_hold, args=(stops,), name="leash", daemon=True).start()
        worker = _started(fabric, token, args.name, options, stops.early)
        if worker is None:
            return 0
        log.info("working name=%s instance=%s url=%s", args.name, instance, url)
        stops.of(worker)
        worker.work()
    log.info("stopped claimed=%d", worker.claimed)
    if args.json:
        sys.stdout.write(json.dumps({"name": args.name, "instance": instance, "claimed": worker.claimed}) + "\n")
    return NotFound.code if args.once and not worker.claimed else 0


def _started(fabric: RemoteFabric, token: str, name: str, options: Options, early: threading.Event) -> Worker | None:
    """The worker, once the server answers; None when it was told to stop before. ``once`` does not wait."""

    def connect(patience: float) -> RemoteFabric:
        return RemoteFabric(options.url, token, timeout=patience, instance=options.instance)

    while True:
        try:
            return Worker(fabric, connect, name, options)
        except Unavailable as error:
            if options.once:
                raise
            log.warning("server away reason=%s", error.message)
            if early.wait(_START):
                return None


class Stops:
    """What is to stop the worker, also while there is none yet."""

    def __init__(self) -> None:
        self.early = threading.Event()  # told to stop before it worked
        self._calls = 0
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def drain(self, _: int = 0) -> None:
        """Drain it; the second call gives back at once what it works on."""
        with self._lock:
            self._calls += 1
            self.early.set()
            if self._worker is not None:
                self._worker.drain()

    def of(self, worker: Worker) -> None:
        """This is the worker; it hears what was said before."""
        with self._lock:
            self._worker = worker
            for _ in range(self._calls):
                worker.drain()


def _hold(stops: Stops) -> None:
    """The supervisor holds the other end of our standard input: when it ends, so do we at once, also while starting."""
    while os.read(0, 4096):
        pass
    log.info("the supervisor is gone")
    stops.drain()
    stops.drain()


def folder_of(name: str, url: str, env: Mapping[str, str]) -> Path:
    """Where this worker keeps what must outlive it: apart for each server, in the user's state directory."""
    named = env.get("FABRIC_WORKERS")
    state = env.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".local" / "state"
    top = Path(named).expanduser().absolute() if named else base / "taskfabric" / "workers"
    return top / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def roots_of(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Below these folders ``file:`` refs are read: FABRIC_ROOTS (separated as in PATH), else where it was started."""
    named = [Path(word).expanduser().absolute() for word in env.get("FABRIC_ROOTS", "").split(os.pathsep) if word]
    return tuple(named) or (Path.cwd(),)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.main", allow_abbrev=False)
    parser.add_argument("name", help="the agent card")
    parser.add_argument("--once", action="store_true", help="end when nothing is left to claim")
    parser.add_argument("--json", action="store_true", help="say at the end, as a JSON object, what was done")
    parser.add_argument("--leash", action="store_true", help="end when standard input does")
    parser.add_argument("--poll", type=float, default=20.0, metavar="S", help="seconds of one wait for work")
    parser.add_argument("--grace", type=float, default=60.0, metavar="S", help="seconds for runs when it drains")
    return parser


if __name__ == "__main__":
    main()
