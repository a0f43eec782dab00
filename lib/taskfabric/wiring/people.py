"""Who is there from the start: the first human, services, workers, and their tokens."""

from __future__ import annotations

from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import APP_TOKEN, AppRole, Kind, Principal, ProjectRole, Stamp, Trust, Via
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.target import checked_name
from taskfabric.ports.credentials import NewPrincipal
from taskfabric.wiring.house import House

WORKER_TOKEN: Final = "worker of the fabric's machine"
SYSTEM: Final = Stamp(principal_id=0, name="fabric", kind=Kind.SERVICE, trust=Trust.TRUSTED, via=Via.SYSTEM)


def check_guarded(house: House) -> None:
    """Raises BadInput for a server that other machines would reach and that has nobody to let in: whoever sets it up
    later would do so before everybody's eyes."""
    settings = house.settings
    if not settings.server.allow_remote or house.foreign is not None:
        return
    now = house.board.now()
    if not any(
        not token.revoked and (token.expires is None or token.expires > now) for token in house.credentials.tokens(None)
    ):
        raise BadInput(
            f"other machines would reach this server at {settings.server.host}, and nobody has a token for it",
            next="start it once on this machine (`fabric up`), which makes the first one",
        )


def sign_in_link(house: House, name: str) -> str:
    """The secret of a link that signs this human's browser in, once, within a quarter of an hour. For whoever starts
    the server on its machine. Raises BadInput if there is no such human."""
    person = house.credentials.principal(name)
    if person is None or not person.is_human or not person.active:
        raise BadInput(f"there is no human called {name[:63]!r} here", next="`fabric user list` shows who is")
    return house.hallway.sessions.link_of_the_house(person, SYSTEM)


def sync_cards(house: House) -> dict[str, str]:
    """Every enabled card of an agent has its principal and its queue; what could not be done, by card."""
    return house.hallway.manning.man()


def service_token(house: House, name: str, kept: str = "") -> str:
    """A token of the fabric's own service of this name, which is made if it is missing; ``kept`` if that still works.

    Raises BadInput if the name belongs to somebody else."""
    caller = house.credentials.authenticate(kept) if kept else None
    if caller is not None and caller.principal.name == name and caller.principal.kind is Kind.SERVICE:
        return kept
    found = house.credentials.principal(name)
    if found is None:
        new = NewPrincipal(name=name, kind=Kind.SERVICE, trust=Trust.TRUSTED)
        found = house.credentials.add_principal(new, SYSTEM)
    if found.kind is not Kind.SERVICE:
        raise BadInput(f"{name} is a service of the fabric, and the account of that name is none", name=name)
    if not found.active:  # it came with an import
        house.credentials.set_active(found.id, True, SYSTEM)
    house.credentials.revoke_all(found.id, SYSTEM)
    token, _ = house.credentials.create_token(found.id, name="this machine", via=Via.TOKEN, stamp=SYSTEM)
    return token


def app_token(house: House, secret: str) -> None:
    """The app token of Kanboard's API is this one; with "" there is none, and an earlier one is worth nothing.

    Raises BadInput if somebody else is called ``jsonrpc``, or the secret is somebody's token."""
    found = house.credentials.principal(APP_TOKEN)
    if found is not None and found.kind is not Kind.SERVICE:
        raise BadInput(f"{APP_TOKEN} is the app token's name, and there is an account of that name", name=APP_TOKEN)
    known = house.credentials.authenticate(secret) if secret else None
    if known is not None and known.principal.is_app:
        return
    if known is not None:
        raise BadInput("auth.app_token is a token of an account here", next="choose another secret")
    if found is not None:
        house.credentials.revoke_all(found.id, SYSTEM)
    if not secret:
        return
    if found is None:
        new = NewPrincipal(name=APP_TOKEN, kind=Kind.SERVICE, trust=Trust.TRUSTED)
        found = house.credentials.add_principal(new, SYSTEM)
    if not found.active:  # it came with an import
        house.credentials.set_active(found.id, True, SYSTEM)
    house.credentials.create_token(found.id, name="auth.app_token", via=Via.TOKEN, stamp=SYSTEM, secret=secret)


def worker_token(house: House, name: str, kept: str = "") -> str:
    """A token for the worker of this agent on this machine; ``kept`` if that still works, else one in its place.

    Other tokens of the agent stay as they are. Raises BadInput if there is no such agent."""
    caller = house.credentials.authenticate(kept) if kept else None
    if caller is not None and caller.principal.name == name and caller.run is None:
        return kept
    agent = house.credentials.principal(name)
    if agent is None or agent.kind is not Kind.AGENT or not agent.active:
        raise BadInput(f"there is no agent called {name[:63]!r}", next="`fabric agents check` tells why", name=name)
    for old in house.credentials.tokens(agent.id):
        if old.name == WORKER_TOKEN and not old.revoked:
            house.credentials.revoke_token(old.id, SYSTEM)
    token, _ = house.credentials.create_token(agent.id, name=WORKER_TOKEN, via=Via.TOKEN, stamp=SYSTEM)
    return token


def first_human(house: House, name: str, *, zone: str = "UTC") -> str | None:
    """The first human is an administrator and has an inbox; the default pool exists and he works in it.

    Returns his local token, or None when there was a human before; then only what is missing is made.
    Raises BadInput for a name that cannot be one.
    """
    owner = _first_administrator(house)
    if owner is not None:
        ensure_queues(house, owner)
        return None
    owner = house.credentials.add_principal(
        NewPrincipal(
            name=checked_name(name, "user"),
            kind=Kind.HUMAN,
            trust=Trust.HUMAN,
            role=AppRole.ADMIN,
            zone=zone,
            capabilities=None,
        ),
        SYSTEM,
    )
    ensure_queues(house, owner)
    return local_token(house, owner.name)


def ensure_queues(house: House, owner: Principal) -> list[Queue]:
    """This human's inbox and the default pool exist, and he manages the pool."""
    inbox, _ = house.projects.make_queue(owner.name, QueueKind.INBOX, SYSTEM, owner_id=owner.id)
    pool, made = house.projects.make_queue(house.hallway.rules.default_pool, QueueKind.POOL, SYSTEM)
    if made or house.projects.role_of(pool.project_id, owner.id) is None:
        house.projects.set_member(pool.project_id, owner.id, ProjectRole.MANAGER, SYSTEM)
    return [inbox, pool]


def local_token(house: House, name: str) -> str:
    """A new token for the credentials file on this human's machine: it may do all but decide.

    Raises BadInput if there is no such human.
    """
    owner = house.credentials.principal(name)
    if owner is None or not owner.is_human or not owner.active:
        raise BadInput(
            f"there is no human called {name[:63]!r} here", next="`fabric user list` shows who is", name=name
        )
    token, _ = house.credentials.create_token(owner.id, name="this machine", via=Via.LOCAL, stamp=SYSTEM)
    return token


def first_administrator(house: House) -> str | None:
    """The name of the first human administrator; None on a fresh board."""
    found = _first_administrator(house)
    return None if found is None else found.name


def _first_administrator(house: House) -> Principal | None:
    people = (p for p in house.credentials.principals() if p.is_human and p.is_admin and p.active)
    return min(people, key=lambda p: p.id, default=None)


# ---------------------------------------------------------------- the database it stands on
