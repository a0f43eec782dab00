"""What a fabric finds at its start: a home, a database, a first human with his token, on a fresh board a few tasks."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from taskfabric import wiring
from taskfabric.domain.errors import FabricError
from taskfabric.domain.principal import Kind, ProjectRole, Trust
from taskfabric.domain.queue import QueueKind
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.ports.fabric import Fabric
from taskfabric.services.upkeep import CRON, KEEPER, METRICS
from taskfabric.services.verbs import Submit
from taskfabric.settings import Settings, load
from taskfabric.surfaces.cli.where import CREDENTIALS, SERVICES, read
from taskfabric.surfaces.cli.zone import local_zone
from taskfabric.wiring import SYSTEM, Ground, House

HELPER: Final = "helper"
_PORTS: Final = 20  # how many after the usual one are tried


def furnish(
    home: Path, settings: Settings, url: str, public: str, *, user: str, say: Callable[[str], None]
) -> tuple[Ground, str, str]:
    """The database runs and is up to date, the first human exists and his token is in ``credentials``.

    Returns the ground, the human's name, and the address below ``public`` that signs a browser of his in, once; it is
    for the terminal alone and kept in no file. Raises the errors of ``wiring.open_cluster``.
    """
    say("starting the database")
    ground = wiring.open_cluster(home, settings)
    if ground.applied:
        say(f"brought the database up to date ({', '.join(ground.applied)})")
    house = wiring.build(settings, ground.dsn, home=home, name="up")
    try:
        zone = getattr(local_zone(os.environ), "key", None) or "UTC"
        token = wiring.first_human(house, user, zone=zone)
        if token is not None:
            _samples(house, user, token)
            say(f"made the first human, {user}, and three sample tasks")
        name, token = _identity(house, home, user, token)
        for card, problem in wiring.sync_cards(house).items():
            say(f"the agent card {card} is left out: {problem}")
        kept = read(home / SERVICES) or {}
        services = {
            word: wiring.service_token(house, word, str(kept.get(word, ""))) for word in (KEEPER, CRON, METRICS)
        }
        link = f"{public}/sign-in?link={wiring.sign_in_link(house, name)}"
    finally:
        house.close()
    write_private(home / CREDENTIALS, {"url": url, "user": name, "token": token})
    write_private(home / SERVICES, services)
    return ground, name, link


def _identity(house: House, home: Path, user: str, token: str | None) -> tuple[str, str]:
    """The local human and a token that works: the new one, else the one kept here, else another one."""
    if token is not None:
        return user, token
    kept = read(home / CREDENTIALS) or {}
    caller = house.credentials.authenticate(str(kept.get("token", "")))
    if caller is not None:
        return caller.principal.name, str(kept["token"])
    name = _owner(house, kept)
    return name, wiring.local_token(house, name)


def _owner(house: House, kept: Mapping[str, object]) -> str:
    """Whose machine it is: the human of the credentials file, else the first administrator. Raises FabricError."""
    before = house.credentials.principal(str(kept.get("user", "")))
    if before is not None and before.is_human and before.active:
        return before.name
    name = wiring.first_administrator(house)
    if name is None:
        raise FabricError("there is no human who manages this fabric", next="enable one, or begin with a new home")
    return name


def new_credentials(home: Path, running: Mapping[str, Any], *, env: Mapping[str, str]) -> dict[str, object]:
    """What ``credentials`` shall hold, with a new token of the local human; ``running`` is what runtime.json says.

    Raises FabricError.
    """
    settings = load(env=env, home=home)
    place = (running.get("database") or {}).get("place")
    dsn = settings.board.dsn if place is None else wiring.cluster_at(home, Path(place)).start()
    if not dsn:
        raise FabricError(
            "the token kept here is worth nothing, and the database is not known here",
            next="`fabric down`, then `fabric up` makes another one",
        )
    house = wiring.build(settings, dsn, home=home, name="up")
    try:
        name = _owner(house, read(home / CREDENTIALS) or {})
        return {"url": running["url"], "user": name, "token": wiring.local_token(house, name)}
    finally:
        house.close()


def _samples(house: House, user: str, token: str) -> None:
    """A queue for an agent, and one task each for the agent, the human and the pool."""
    owner = house.credentials.principal(user)
    assert owner is not None
    helper = house.credentials.add_principal(
        NewPrincipal(name=HELPER, kind=Kind.AGENT, trust=Trust.SANDBOXED, owner_id=owner.id, capabilities=("tools",)),
        SYSTEM,
    )
    house.projects.make_queue(HELPER, QueueKind.AGENT, SYSTEM, owner_id=helper.id)
    pool = house.projects.queue(wiring.rules(house.settings).default_pool)
    if pool is not None:
        house.projects.set_member(pool.project_id, helper.id, ProjectRole.MEMBER, SYSTEM)
    caller = house.credentials.authenticate(token)
    assert caller is not None
    fabric: Fabric = house.hallway.for_caller(caller)
    for to, title, spec in (
        (HELPER, "Say hello", "Finish this task with a note that says who you are and what you can do."),
        (user, "Look around", "This is your inbox. `fabric take` this task, then `fabric done` it with a note."),
        (
            "pool",
            "Summarise README.md",
            "Whoever may claim from the pool and comes first takes this.\n\nThree sentences.",
        ),
    ):
        refs = ("file:README.md",) if to == "pool" else ()
        fabric.call(Submit(title=title, description=spec, to=to, refs=refs))


class Port:
    """A port that nobody listens on, kept for us until ``close``.

    Whoever only looks whether a port is free may find it free together with another fabric that starts at the same
    moment; so each fabric first takes the port's name among the machine's abstract sockets, where there are such.
    """

    def __init__(self, host: str, number: int) -> None:
        """Port 0 is any free one. Raises OSError when it is taken."""
        self._name: socket.socket | None = None
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the server will bind: a connection that lingers from the last run is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, number))
            probe.listen(1)
            self.number = int(probe.getsockname()[1])
        if sys.platform == "linux":
            self._name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                self._name.bind(f"\0taskfabric/port/{self.number}")
            except OSError:
                self.close()
                raise

    def close(self) -> None:
        """Others may take it."""
        if self._name is not None:
            self._name.close()


def choose_port(settings: Settings, home: Path, *, asked: int | None) -> Port:
    """The port to serve on: the one asked for, the one of the last start, the usual one, or the next free one.

    0 asks for any free one. Raises FabricError when the asked one is taken.
    """
    host, usual = settings.server.host, settings.server.port
    if asked is not None or os.environ.get("FABRIC_SERVER_PORT"):
        try:
            return Port(host, usual)
        except OSError as error:
            raise FabricError(
                f"port {usual} on {host} is taken by another program",
                next="stop that program, or name another port (`--port 0` takes any free one)",
                port=usual,
            ) from error
    last = (read(home / "last.json") or {}).get("port")
    first = [last] if isinstance(last, int) and 0 < last < 65536 else []
    for number in [*first, *range(usual, min(usual + _PORTS, 65536)), 0]:
        with contextlib.suppress(OSError):
            return Port(host, number)
    raise FabricError(f"there is no free port on {host}", next="name one with --port")


def user_name(env: Mapping[str, str]) -> str:
    """The account's name as one that the fabric takes; ``owner`` where nothing of it remains."""
    account = env.get("SUDO_USER") or env.get("USER") or env.get("LOGNAME") or ""
    if not account:
        with contextlib.suppress(KeyError):  # a container may run under a number without a name
            account = pwd.getpwuid(os.getuid()).pw_name
    word = re.sub(r"[^a-z0-9._-]+", "-", account.lower())
    word = word.strip("._-")[:63]
    return word if word and word not in ("auto", "any", "pool", "me", HELPER) else "owner"


def make_home(home: Path) -> None:
    """The home and its log folder exist, 0700. Raises FabricError when they cannot be made."""
    try:
        for folder in (home, home / "logs"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FabricError(
            f"{home} cannot be the fabric's home: {error.strerror}",
            next="name another folder with --data or FABRIC_HOME",
        ) from error


def write_private(path: Path, shape: Mapping[str, object]) -> None:
    """Write a JSON object that only we can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(shape, file)
    draft.replace(path)
