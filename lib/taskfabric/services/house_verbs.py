"""The arguments of the verbs about the house itself: queues and members, people, tokens and PINs, the doctor."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from taskfabric.domain.principal import ProjectRole
from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import CHECK, QUEUE, Check, listed, plain
from taskfabric.services.args import FenceArg, Instant, Text, Word


class CreateQueue(Verb[Queue]):
    """Make a queue: a pool, a human's inbox, or an agent's queue."""

    method: ClassVar[str] = "fabric.queue.create"
    result = QUEUE

    name: Word
    kind: QueueKind = QueueKind.POOL
    owner: Word | None = None
    score_check: bool | None = None
    needs_verified: bool | None = None
    human_verify: bool | None = None


class ListQueues(Verb[list[Queue]]):
    """The queues that the caller may see or submit to, with the counts of its visible rows."""

    method: ClassVar[str] = "fabric.queue.list"
    result = listed(QUEUE)


class SetMember(Verb[None]):
    """Make somebody a member of a queue, or (role None) no longer one."""

    method: ClassVar[str] = "fabric.queue.member"
    result = plain()

    queue: Word
    name: Word
    role: ProjectRole | None = ProjectRole.MEMBER
    pin: Text | None = Field(default=None, repr=False)


class SetLimit(Verb[dict[str, Any]]):
    """How many cards a column of a queue may hold before claims and moves by hand into it stop; 0 = no limit. In Work
    in progress what waits for somebody does not count; a full Done stops the claims of its queue."""

    method: ClassVar[str] = "fabric.queue.limit"
    result = plain()

    queue: Word
    column: Word
    limit: Annotated[int, Field(ge=0, le=10_000, strict=True)]


class AddUser(Verb[dict[str, Any]]):
    """Add a human, with an inbox; the answer holds a token, shown once."""

    method: ClassVar[str] = "fabric.user.add"
    result = plain()

    name: Word
    full_name: Word = ""
    email: Word = ""
    zone: Word = "UTC"
    role: Literal["app-admin", "app-manager", "app-user"] = "app-user"
    pin: Text | None = Field(default=None, repr=False)


class ListUsers(Verb[list[dict[str, Any]]]):
    """Humans and agents, as far as the caller may know of them."""

    method: ClassVar[str] = "fabric.user.list"
    result = plain()


class DisableUser(Verb[dict[str, Any]]):
    """A disabled account answers nobody; its tasks stay."""

    method: ClassVar[str] = "fabric.user.disable"
    result = plain()

    name: Word
    enable: bool = False
    pin: Text | None = Field(default=None, repr=False)


class ResetUser(Verb[dict[str, Any]]):
    """Revoke all tokens of an account, end its sessions, and make one new token, which decides nothing. ``forget_pin``:
    of another human whose PIN is lost, that one, too; what he could decide is withdrawn. The next PIN takes a code that
    he has by letter, or from whoever keeps the server (``code_kept``)."""

    method: ClassVar[str] = "fabric.user.reset"
    result = plain()

    name: Word
    forget_pin: bool = False
    pin: Text | None = Field(default=None, repr=False)


class CreateToken(Verb[dict[str, Any]]):
    """A token for an agent (made if new: sandboxed, member of the default pool) or for oneself; shown once."""

    method: ClassVar[str] = "fabric.token.create"
    result = plain()

    name: Word
    queues: tuple[Word, ...] = ()
    trust: Literal["untrusted", "sandboxed", "trusted"] = "sandboxed"
    needs: tuple[Word, ...] | None = None  # capabilities of a new agent
    tiers: tuple[Word, ...] | None = None
    concurrency: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    expires: Instant | None = None
    label: Word = ""
    pin: Text | None = Field(default=None, repr=False)


class RevokeToken(Verb[dict[str, Any]]):
    """The token is worth nothing from now on."""

    method: ClassVar[str] = "fabric.token.revoke"
    result = plain()

    id: Annotated[int, Field(ge=1, lt=2**62, strict=True)]


class ListTokens(Verb[list[dict[str, Any]]]):
    """Tokens, without their secrets."""

    method: ClassVar[str] = "fabric.token.list"
    result = plain()


class RunToken(Verb[dict[str, Any]]):
    """A token for what a run starts: it acts as the holder, inside that run, until the run ends."""

    method: ClassVar[str] = "fabric.token.run"
    result = plain()

    fence: FenceArg


class SetPin(Verb[dict[str, Any]]):
    """Set the caller's PIN. Changing one needs the old one; after a reset by somebody else, the code of that."""

    method: ClassVar[str] = "fabric.pin.set"
    result = plain()

    pin: Text = Field(repr=False)
    old: Text | None = Field(default=None, repr=False)
    code: Text | None = Field(default=None, repr=False)


class Doctor(Verb[list[Check]]):
    """Is everything well, and what could be better?"""

    method: ClassVar[str] = "fabric.doctor"
    result = listed(CHECK)
