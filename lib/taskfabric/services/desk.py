"""What every verb of the hallway has at hand: the ports, the house's rules, and the looks that cost little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from taskfabric.domain.ancestry import Limits
from taskfabric.domain.errors import Refused, not_found
from taskfabric.domain.principal import Caller, Principal, Viewer
from taskfabric.domain.queue import Queue
from taskfabric.domain.task import Task
from taskfabric.domain.tier import DEFAULT_THRESHOLDS
from taskfabric.ports.annex import Annex
from taskfabric.ports.approvals import Approvals
from taskfabric.ports.away import Away
from taskfabric.ports.board import Board
from taskfabric.ports.cards import Cards
from taskfabric.ports.codes import Codes
from taskfabric.ports.credentials import Credentials
from taskfabric.ports.dossier import Dossiers
from taskfabric.ports.faces import Faces
from taskfabric.ports.files import Files
from taskfabric.ports.followers import Followers, Hooks
from taskfabric.ports.furniture import Furniture
from taskfabric.ports.groups import Groups
from taskfabric.ports.journal import Journal
from taskfabric.ports.labels import Labels
from taskfabric.ports.ledger import Ledger
from taskfabric.ports.places import Places
from taskfabric.ports.projects import Projects
from taskfabric.ports.register import Register
from taskfabric.ports.router import Router
from taskfabric.ports.sessions import Sessions
from taskfabric.ports.signal import Signal
from taskfabric.ports.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings that the hallway needs, with their defaults."""

    lease: timedelta = timedelta(minutes=10)
    human_lease: timedelta = timedelta(hours=8)
    max_lease: timedelta = timedelta(hours=12)  # what an agent may ask for at most
    max_attempts: int = 3
    limits: Limits = field(default_factory=Limits)
    take_order: tuple[int, ...] = (3, 2, 1, 0)
    aging: timedelta = timedelta(hours=4)
    thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
    title: int = 2000  # characters
    description: int = 2**20  # bytes of UTF-8
    note: int = 2**20  # bytes of UTF-8
    tags: int = 50
    tag_length: int = 255  # characters
    needs: int = 20
    refs: int = 100
    attachment: int = 10 * 2**20  # bytes
    default_pool: str = "pool"
    wait_cap: timedelta = timedelta(seconds=55)
    poll_interval: timedelta = timedelta(seconds=1)
    longest_park: timedelta = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPorts:
    """What the verbs about agents stand on."""

    cards: Cards
    ledger: Ledger
    standing: Standing
    router: Router


@dataclass(frozen=True, slots=True, kw_only=True)
class KanboardPorts:
    """What Kanboard's API needs besides what the fabric itself does."""

    places: Places
    dossiers: Dossiers
    furniture: Furniture
    groups: Groups
    labels: Labels
    register: Register
    faces: Faces
    annex: Annex
    followers: Followers
    hooks: Hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPorts:
    """What the verbs about people's decisions stand on."""

    approvals: Approvals
    away: Away
    sessions: Sessions
    codes: Codes
    policy: Callable[[], tuple[str, str]]  # the text of policy.toml as it now is, and where it stands
    shipped_policy: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The ports and the rules; every room of the hallway works at one desk."""

    board: Board
    projects: Projects
    credentials: Credentials
    journal: Journal
    files: Files
    signal: Signal
    fleet: FleetPorts
    kanboard: KanboardPorts
    inbox: InboxPorts
    rules: Rules
    version: str

    @property
    def approvals(self) -> Approvals:
        return self.inbox.approvals

    @property
    def cards(self) -> Cards:
        return self.fleet.cards

    @property
    def ledger(self) -> Ledger:
        return self.fleet.ledger

    @property
    def standing(self) -> Standing:
        return self.fleet.standing

    def see(self, caller: Caller, task_id: int) -> Task:
        """The task, whole. Raises NotFound if it is not there or the caller may not see it, Refused if he may see
        only its state and its result."""
        task = self.board.get(task_id, None if caller.principal.is_app else Viewer.of(caller))
        if task.restricted:
            raise Refused(
                "you may see only the state and the result of this task",
                next="ask its submitter",
                rule="restricted",
                task=task_id,
            )
        return task

    def queue_of(self, task: Task) -> Queue | None:
        """The queue that the task stands in; None for a project that is not one."""
        return self.projects.queue(task.project_id)

    def pool(self) -> Queue:
        """The default pool. Raises NotFound while there is none."""
        queue = self.projects.queue(self.rules.default_pool)
        if queue is None:
            raise not_found("target")
        return queue

    def named(self, caller: Caller, name: str) -> Queue | None:
        """The queue that this name means: the one that a principal of the name owns, else the one so called. ``me``
        is the caller's own. Whether the caller may know of it is not asked here."""
        name = caller.principal.name if name == "me" else name.lower()  # no queue's name has capitals
        for queue in self.projects.queues():
            if queue.owner == name:
                return queue
        return self.projects.queue(name)

    def comes_in(self, person: Principal) -> bool:
        """Whether he has a token or a browser with which he could decide anything."""
        now = self.board.now()
        tokens = self.credentials.tokens(person.id)
        live = any(not one.revoked and (one.expires is None or one.expires > now) for one in tokens)
        return live or bool(self.inbox.sessions.of(person.id))

    def person(self, name_or_id: str | int | None) -> Principal | None:
        """The active principal, or None."""
        found = None if name_or_id is None else self.credentials.principal(name_or_id)
        return found if found is not None and found.active else None
