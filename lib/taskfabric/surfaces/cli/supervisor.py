"""The supervisor: the one process that ``fabric up`` leaves running. It keeps the database and the children alive.

<home>/up.lock        held while it lives; the operating system lets go of it, however the process ends
<home>/runtime.json   where the fabric runs, and the processes that belong to it; gone after a clean stop
<home>/logs/          one file for each child, and supervisor.log
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskfabric import __version__, logs, wiring
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.settings import Settings, load
from taskfabric.signals import heard
from taskfabric.surfaces.cli import process, start
from taskfabric.surfaces.cli.children import Child, ChildSpec, rotate, stop
from taskfabric.surfaces.cli.crew import PREFIX, Crew
from taskfabric.surfaces.cli.keeper import MODULES as SERVICE_MODULES
from taskfabric.surfaces.cli.keeper import environment
from taskfabric.surfaces.cli.keeping import KeptDatabase
from taskfabric.surfaces.cli.where import LOCK, RUNTIME, answers, reachable, read

log = logging.getLogger("taskfabric.surfaces.cli.supervisor")  # also where it runs as a program

_LOOK: Final = 5.0  # seconds between two looks at log sizes; an ended child is noticed at once
_READY: Final = 60.0  # seconds for the server to answer for the first time
_ENDS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OURS: Final = ("FABRIC_URL", "FABRIC_TOKEN", "FABRIC_LEASES")  # a client's, not a server's


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What ``fabric up`` was asked for."""

    home: Path
    port: int | None = None
    user: str | None = None
    config: Path | None = None
    detached: bool = False


class Supervisor:
    """One fabric of this machine, from its start to its stop."""

    def __init__(self, wanted: Wanted, *, say: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._home = wanted.home
        self._say = say
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._children: list[Child] = []
        self._shape: dict[str, object] = {}

    def run(self, ready: Callable[[Mapping[str, Any]], None]) -> None:
        """Start everything, call ``ready`` with what runtime.json says, and keep it running until told to stop.

        Raises FabricError when it cannot start, also when it already runs; what was started is stopped again.
        """
        start.make_home(self._home)
        with lock(self._home), self._signals():
            _end_orphans(self._home)
            overrides = None if self._wanted.port is None else {"server.port": self._wanted.port}
            settings = load(env=os.environ, home=self._home, config=self._wanted.config, overrides=overrides)
            with contextlib.suppress(OSError):
                logs.configure(settings.log.level, settings.log.format, file=self._home / "logs/supervisor.log")
            chosen = start.choose_port(settings, self._home, asked=self._wanted.port)
            port = chosen.number
            # What runs here talks to it here: a public name may lead over a proxy, or be none of this machine's.
            url = f"http://{reachable(settings.server.host)}:{port}"
            public = settings.server.public_url or url
            self._shape = {**self._runtime(url), "public_url": public, "host": settings.server.host, "port": port}
            self._write()
            ground: wiring.Ground | None = None
            try:
                user = self._wanted.user or start.user_name(os.environ)
                ground, name, link = start.furnish(self._home, settings, url, public, user=user, say=self._say)
                self._serve(settings, port, url, name, ground, lambda shape: ready({**shape, "sign_in": link}))
            finally:
                self._end(settings)
                chosen.close()

    def _serve(
        self,
        settings: Settings,
        port: int,
        url: str,
        user: str,
        ground: wiring.Ground,
        ready: Callable[[Mapping[str, Any]], None],
    ) -> None:
        reading, writing = os.pipe()
        crew = self._crew(settings, ground, port)
        try:
            self._start(self._specs(port), reading)
            self._say("starting the server")
            self._await_ready(settings.server.host, port)
            if not self._stop.is_set():
                self._start(self._services(settings.server.host, port), reading)
                self._start(crew.specs(), reading)
            database = None if ground.cluster is None else KeptDatabase(ground.cluster)
            self._shape |= {"user": user, "ready": True, "database": {"kind": "yours", "pid": None}}
            self._write(database)
            start.write_private(self._home / "last.json", {"port": port})
            if not self._stop.is_set():
                ready(self._shape)
            while not self._stop.is_set():
                self._look(settings, database)
                self._man(crew.specs(), reading, database)
                rests = [child.due for child in self._children if child.due is not None]
                self._wake.wait(min([_LOOK if database is None else database.due, *rests]))
                self._wake.clear()
        finally:
            # The children first: the pipe is their leash and stays until they are gone. And of these the workers,
            # so that they can still say how far they came.
            stop([child for child in self._children if child.spec.name.startswith(PREFIX)])
            stop(self._children)
            os.close(reading)
            os.close(writing)

    def _specs(self, port: int) -> list[ChildSpec]:
        env = {key: value for key, value in os.environ.items() if key not in _OURS}
        env |= {"FABRIC_HOME": str(self._home), "FABRIC_SERVER_PORT": str(port), "PYTHONUNBUFFERED": "1"}
        if self._wanted.config is not None:
            env["FABRIC_CONFIG"] = str(self._wanted.config.absolute())
        return [ChildSpec(name="server", module="taskfabric.surfaces.app", arguments=("--leash",), env=env)]

    def _start(self, specs: list[ChildSpec], leash: int) -> None:
        for spec in specs:
            child = Child(spec, self._home / f"logs/{spec.name}.log", leash)
            self._children.append(child)
            child.start()

    def _services(self, host: str, port: int) -> list[ChildSpec]:
        """The fabric's own services: clients of the server, each with the token of its principal."""
        env = self._specs(port)[0].env
        url = f"http://{reachable(host)}:{port}"
        return [
            ChildSpec(name=name, module=module, arguments=("--leash",), env=environment(env, self._home, name, url))
            for name, module in SERVICE_MODULES.items()
        ]

    def _crew(self, settings: Settings, ground: wiring.Ground, port: int) -> Crew:
        url = f"http://{reachable(settings.server.host)}:{port}"
        return Crew(self._home, settings, ground.dsn, env=self._specs(port)[0].env, url=url)

    def _man(self, specs: list[ChildSpec], leash: int, database: KeptDatabase | None) -> None:
        """The workers that run are those of the enabled cards."""
        wanted = {spec.name: spec for spec in specs}
        workers = {child.spec.name: child for child in self._children if child.spec.name.startswith(PREFIX)}
        gone = [child for name, child in workers.items() if wanted.get(name) != child.spec]
        new = [spec for name, spec in wanted.items() if name not in workers or workers[name] in gone]
        if gone or new:
            stop(gone)
            self._children = [child for child in self._children if child not in gone]
            self._start(new, leash)
            self._write(database)

    def _look(self, settings: Settings, database: KeptDatabase | None) -> None:
        # Each of them, not only up to the first that changed.
        changed = [child.look() for child in self._children]
        if database is not None:
            changed.append(database.look())
        if any(changed):
            self._write(database)
        for file in (self._home / "logs").glob("*.log"):
            if file.name != "supervisor.log":  # that one is rotated by its writer, us
                rotate(file, limit=settings.log.rotate_bytes, keep=settings.log.keep)

    def _await_ready(self, host: str, port: int) -> None:
        deadline = time.monotonic() + _READY
        while not self._stop.is_set():
            if answers(host, port):
                return
            ended = next((child for child in self._children if child.has_ended), None)
            if ended is not None or time.monotonic() > deadline:
                name = (ended or self._children[0]).spec.name
                how = "ended while it started" if ended else f"does not answer after {_READY:.0f} s"
                tail = " · ".join(_tail(self._home / f"logs/{name}.log"))
                raise Unavailable(f"the {name} {how}: {tail}", next=f"`fabric logs {name}` has the rest", child=name)
            self._wake.wait(0.05)
            self._wake.clear()

    def _end(self, settings: Settings) -> None:
        """Stop the database, where it is ours, and say nothing runs."""
        cluster = wiring.cluster_of(self._home, settings)
        if cluster is not None:
            with contextlib.suppress(Unavailable):
                cluster.stop()
        (self._home / RUNTIME).unlink(missing_ok=True)
        log.info("stopped")

    def _runtime(self, url: str) -> dict[str, object]:
        return {
            "url": url,
            "pid": os.getpid(),
            "started_ticks": process.started(os.getpid()),
            "started": time.time(),
            "data": str(self._home),
            "detached": self._wanted.detached,
            "version": __version__,
            "ready": False,
        }

    def _write(self, database: KeptDatabase | None = None) -> None:
        if database is not None:
            self._shape["database"] = database.show()
        self._shape["children"] = [child.show() for child in self._children]
        start.write_private(self._home / RUNTIME, self._shape)

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        """SIGTERM, SIGINT and the terminal's end stop it (a detached one has none); an ended child wakes it."""

        def act(number: int) -> None:
            if number in _ENDS and not (number == signal.SIGHUP and self._wanted.detached):
                self._stop.set()
            self._wake.set()

        return heard({*_ENDS, signal.SIGCHLD}, act)


@contextlib.contextmanager
def lock(home: Path) -> Iterator[None]:
    """Hold the home. Raises FabricError when another supervisor has it."""
    with (home / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FabricError(
                f"a fabric starts, runs or stops in {home} already", next="`fabric status` tells", busy=True
            ) from error
        yield


def _end_orphans(home: Path) -> None:
    """End what a supervisor that was killed left behind; the database is joined, not ended."""
    left = read(home / RUNTIME) or {}
    known = [(child.get("pid"), child.get("started_ticks")) for child in left.get("children", ())]
    orphans = [(pid, ticks) for pid, ticks in known if process.is_running(pid, ticks)]
    if orphans:
        log.warning("ending what the last supervisor left pids=%s", [pid for pid, _ in orphans])
        process.end(orphans, patience=10)
    (home / RUNTIME).unlink(missing_ok=True)


def _tail(file: Path, lines: int = 3) -> list[str]:
    try:
        return [line.strip() for line in file.read_text(errors="replace").splitlines() if line.strip()][-lines:]
    except OSError:
        return []


def main() -> None:
    """The detached supervisor: what it has to say goes as JSON lines to the descriptor named by --tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--tell", type=int, required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--user")
    parser.add_argument("--config", type=Path)
    args = parser.parse_args()
    os.set_inheritable(args.tell, False)
    pipe = os.fdopen(args.tell, "w")

    def tell(kind: str, value: object) -> None:
        with contextlib.suppress(OSError, ValueError):  # whoever asked is gone
            pipe.write(json.dumps({kind: value}) + "\n")
            pipe.flush()

    def ready(shape: Mapping[str, Any]) -> None:
        tell("ready", shape)
        with contextlib.suppress(OSError):
            pipe.close()

    wanted = Wanted(home=args.home, port=args.port, user=args.user, config=args.config, detached=True)
    try:
        Supervisor(wanted, say=lambda text: tell("say", text)).run(ready)
    except FabricError as error:
        tell("error", error.to_json())
        sys.exit(error.code)


if __name__ == "__main__":
    main()
