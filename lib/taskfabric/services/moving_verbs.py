"""The arguments of the verbs by which a board moves in and out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from taskfabric.domain.queue import Queue, QueueKind
from taskfabric.domain.status import ColumnRole
from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import QUEUE, plain
from taskfabric.services.args import Text, Word


class Import(Verb[dict[str, Any]]):
    """Rows of another board, in the form of an export; what came before comes no second time. For administrators."""

    method: ClassVar[str] = "fabric.import"
    result = plain()

    source: Annotated[Word, Field(min_length=1)]
    records: Annotated[list[dict[str, Any]], Field(max_length=1000)] = Field(default_factory=list)
    highest: dict[Word, Annotated[int, Field(ge=0, lt=2**62)]] = Field(default_factory=dict)  # of its ids, by table
    dry: bool = False  # nothing is brought: the answer says what would come
    last: bool = False  # nothing more comes: the counts are put in order
    pin: Text | None = Field(default=None, repr=False)


class Export(Verb[dict[str, Any]]):
    """A page of the board's rows. Whole households come along, secrets do not. For administrators."""

    method: ClassVar[str] = "fabric.export"
    result = plain()

    cursor: Word | None = None
    pin: Text | None = Field(default=None, repr=False)


class Adopt(Verb[Queue]):
    """Make a queue of a project that is there, without moving a card."""

    method: ClassVar[str] = "fabric.adopt"
    result = QUEUE

    project: int | Word
    name: Word | None = None
    kind: QueueKind = QueueKind.POOL
    owner: Word | None = None
    columns: dict[ColumnRole, Word] = Field(default_factory=dict)
    pin: Text | None = Field(default=None, repr=False)
