"""The arguments of the verbs of the keeper, the schedules and the notifications."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import Field

from taskfabric.domain.watch import Concern, Matter, Reader
from taskfabric.domain.watch import Turn as Granted
from taskfabric.ports.fabric import Codec, Verb
from taskfabric.services.answers import listed, plain
from taskfabric.services.args import Page, TaskId, Word


class Turn(Verb[Granted]):
    """Is it this keeper's turn, and what is the time? For the keeper. One of several gets it, until it stops asking."""

    method: ClassVar[str] = "fabric.keeper.turn"
    result = Codec[Granted](encode=Granted.to_json, decode=Granted.from_json)

    instance: Word
    length: Annotated[float, Field(ge=1, le=3600)] = 60.0  # seconds


class Watch(Verb[list[Concern]]):
    """The tasks that may need a word, without what they say. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.watch"
    result = listed(Codec[Concern](encode=Concern.to_json, decode=Concern.from_json))

    matter: Matter
    limit: Page = 200


class Tell(Verb[bool]):
    """Remind those whom a task concerns, once for each occasion and level. Grants nothing. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.tell"
    result = plain()

    matter: Matter
    task: TaskId
    occasion: Word
    level: Annotated[int, Field(ge=0, le=100, strict=True)]


class Mend(Verb[bool]):
    """Do again what the end of a child or a blocker should have done. False: nothing was missing. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.mend"
    result = plain()

    matter: Matter
    task: TaskId


class Reconcile(Verb[dict[str, int]]):
    """Put cards and tasks in line where the board is a stock Kanboard; what was done. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.reconcile"
    result = plain()

    limit: Page = 200


class Readers(Verb[list[Reader]]):
    """The humans who get digests. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.readers"
    result = listed(Codec[Reader](encode=Reader.to_json, decode=Reader.from_json))


class Digest(Verb[bool]):
    """A human's digest of this day is in his inbox, and on its way to him. False: it was before. For the keeper."""

    method: ClassVar[str] = "fabric.keeper.digest"
    result = plain()

    name: Word
    day: date


class Metrics(Verb[str]):
    """Numbers in Prometheus' text form: of the whole house for its services, of what he may see for anybody else."""

    method: ClassVar[str] = "fabric.metrics"
    result = plain()


class Tick(Verb[dict[str, Any]]):
    """Every slot up to now has its row, and each that is due its task. For the schedules' submitter."""

    method: ClassVar[str] = "fabric.cron.tick"
    result = plain()


class ListSlots(Verb[dict[str, Any]]):
    """The schedules with their next slots, and what became of the latest ones. For administrators. Changes nothing."""

    method: ClassVar[str] = "fabric.cron.list"
    result = plain()

    limit: Page = 50


class Letters(Verb[list[dict[str, Any]]]):
    """The caller's own notifications, newest first, with what became of each."""

    method: ClassVar[str] = "fabric.letters"
    result = plain()

    limit: Page = 50
