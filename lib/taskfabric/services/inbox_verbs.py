"""The arguments of the verbs about oneself: the inbox, vacation, delegation, settings, channels, sessions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import plain
from taskfabric.services.args import Instant, TaskId, Text, Word

Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]  # 22:00


class Inbox(Verb[dict[str, Any]]):
    """What waits for the caller: ``items``, oldest first, each with what happens on yes, on no and on silence."""

    method: ClassVar[str] = "fabric.inbox"
    result = plain()

    snoozed: bool = False  # show those, too, that were put off


class Snooze(Verb[dict[str, Any]]):
    """Out of the caller's list until then; None = back. Nothing else changes: what expires still does."""

    method: ClassVar[str] = "fabric.inbox.snooze"
    result = plain()

    task: TaskId
    until: Instant | None = None


class SnoozeMany(Verb[list[dict[str, Any]]]):
    """As Snooze, for all of these or, when one of them is not there, for none."""

    method: ClassVar[str] = "fabric.inbox.snooze_many"
    result = plain()

    tasks: Annotated[tuple[TaskId, ...], Field(min_length=1, max_length=100)]
    until: Instant | None = None


class Delegate(Verb[dict[str, Any]]):
    """Another human may decide this as well, until then; a question is his to answer until then (for a week, if nothing
    is said), and afterwards the caller's again; other work moves to his inbox for good."""

    method: ClassVar[str] = "fabric.delegate"
    result = plain()

    task: TaskId
    to: Word
    until: Instant | None = None
    note: Text = ""


class Vacation(Verb[dict[str, Any]]):
    """The caller is away until then, and (``to``) who decides meanwhile; ``off`` = back. No argument: how it is."""

    method: ClassVar[str] = "fabric.vacation"
    result = plain()

    until: Instant | None = None
    to: Word | None = None
    note: Word = ""
    off: bool = False


class Me(Verb[dict[str, Any]]):
    """The caller's own settings."""

    method: ClassVar[str] = "fabric.me"
    result = plain()


class SetMe(Verb[dict[str, Any]]):
    """Change them: the zone, and the hours in which no letter comes."""

    method: ClassVar[str] = "fabric.me.set"
    result = plain()

    zone: Word | None = None
    quiet_begin: Clock | None = None
    quiet_end: Clock | None = None
    no_quiet: bool = False


class ListChannels(Verb[list[dict[str, Any]]]):
    """Where the caller's letters go, without what is secret in the addresses; those without a number are written in
    notify.toml by whoever keeps the server."""

    method: ClassVar[str] = "fabric.channel.list"
    result = plain()


class AddChannel(Verb[dict[str, Any]]):
    """The caller's letters go to this address of apprise's, too. It is a secret, and never shown again."""

    method: ClassVar[str] = "fabric.channel.add"
    result = plain()

    address: Text = Field(repr=False)
    pin: Text | None = Field(default=None, repr=False)


class RemoveChannel(Verb[dict[str, Any]]):
    """No letter goes there any more."""

    method: ClassVar[str] = "fabric.channel.remove"
    result = plain()

    id: Annotated[int, Field(ge=1, lt=2**31, strict=True)]
    pin: Text | None = Field(default=None, repr=False)


class TryChannel(Verb[dict[str, Any]]):
    """A letter without content goes there now; whether it was taken, and otherwise why not."""

    method: ClassVar[str] = "fabric.channel.test"
    result = plain()

    id: Annotated[int, Field(ge=1, lt=2**31, strict=True)]


class ListSessions(Verb[list[dict[str, Any]]]):
    """Web sessions: one's own, or (for administrators) of whom it names."""

    method: ClassVar[str] = "fabric.session.list"
    result = plain()

    name: Word | None = None


class RevokeSession(Verb[dict[str, Any]]):
    """That browser has to sign in again."""

    method: ClassVar[str] = "fabric.session.revoke"
    result = plain()

    id: Annotated[int, Field(ge=1, lt=2**62, strict=True)]


class SignInLink(Verb[dict[str, Any]]):
    """A secret with which one browser signs in once, within 15 minutes: for oneself, or for another human."""

    method: ClassVar[str] = "fabric.session.link"
    result = plain()

    name: Word | None = None
    pin: Text | None = Field(default=None, repr=False)
