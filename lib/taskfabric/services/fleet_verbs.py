"""The arguments of the verbs about the fleet: agent cards, availability, quotas, pauses, the output of runs."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from taskfabric.domain.limit import Confidence, Learned, Limit, LimitClass
from taskfabric.ports.fabric import Verb
from taskfabric.services.answers import plain
from taskfabric.services.args import FenceArg, TaskId, Text, Word, sound

Count = Annotated[int, Field(ge=0, lt=2**53, strict=True)]
Short = Annotated[str, AfterValidator(sound), Field(max_length=2000)]
Fact = str | int | float | bool | None


class LearnedArg(BaseModel):
    """How full a provider's window is, as it travels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: Annotated[str, AfterValidator(sound), Field(min_length=1, max_length=100)]
    used: Annotated[float, Field(ge=0, le=1)]
    amount: Annotated[int, Field(ge=1, lt=2**53, strict=True)] | None = None
    reset: AwareDatetime | None = None

    @property
    def value(self) -> Learned:
        return Learned(window=self.window, used=self.used, amount=self.amount, reset=self.reset)

    @classmethod
    def of(cls, learned: Learned) -> LearnedArg:
        return cls(window=learned.window, used=learned.used, amount=learned.amount, reset=learned.reset)


class LimitArg(BaseModel):
    """A provider's limit as it travels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cls: LimitClass
    window: Word = ""
    reset: AwareDatetime | None = None
    confidence: Confidence = Confidence.UNKNOWN
    evidence: Short = ""

    @property
    def value(self) -> Limit:
        return Limit(
            cls=self.cls,
            window=self.window,
            reset=self.reset,
            confidence=self.confidence,
            evidence=self.evidence,
        )

    @classmethod
    def of(cls, limit: Limit) -> LimitArg:
        return cls(
            cls=limit.cls,
            window=limit.window,
            reset=limit.reset,
            confidence=limit.confidence,
            evidence=limit.evidence[:2000],
        )


class Card(Verb[dict[str, Any]]):
    """An agent's card: ``card`` in the form of its file, ``persona`` as text, ``hash`` of both, ``warnings``."""

    method: ClassVar[str] = "fabric.card"
    result = plain()

    name: Word


class Agents(Verb[list[dict[str, Any]]]):
    """The roster: each card with its a(t), why, until when, its queue's depth, its running tasks and its quota."""

    method: ClassVar[str] = "fabric.agents"
    result = plain()


class CheckCards(Verb[list[dict[str, Any]]]):
    """What is wrong with the cards, or could be better: ``card``, ``state`` (warn, fail), ``text``."""

    method: ClassVar[str] = "fabric.agents.check"
    result = plain()


class Report(Verb[dict[str, Any]]):
    """A worker says how it is, once a cycle, and is told a(t) as far as the server knows it: ``open``, ``background``
    (False: only urgent work may start), ``until``, ``reason``, ``parts``, ``hash`` of the card."""

    method: ClassVar[str] = "fabric.report"
    result = plain()

    instance: Word
    state: Literal["idle", "running", "closed", "draining", "gone"]
    reason: Short = ""
    until: AwareDatetime | None = None
    running: Count = 0
    facts: dict[Word, Fact] = Field(default_factory=dict, max_length=50)


class Limited(Verb[dict[str, Any]]):
    """A worker met a provider's limit. Exhausted closes the account; ``until`` says how long to keep away, ``account``
    whether the whole account is closed."""

    method: ClassVar[str] = "fabric.limited"
    result = plain()

    limit: LimitArg
    fence: FenceArg | None = None
    instance: Word = ""


class Reserve(Verb[dict[str, Any]]):
    """Before a run: quota is put aside. ``granted``, ``reservation``; else ``until`` and ``reason``."""

    method: ClassVar[str] = "fabric.reserve"
    result = plain()

    units: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 1
    interactive: bool = False
    fence: FenceArg | None = None
    instance: Word = ""


class Spent(Verb[dict[str, Any]]):
    """After a run: what it cost in truth. ``ok`` False: the provider never answered, so nothing follows from it.
    ``probe``: the run tried whether a closed account is back. ``learned``: what the provider said of its windows."""

    method: ClassVar[str] = "fabric.spent"
    result = plain()

    reservation: Annotated[int, Field(ge=1, lt=2**62, strict=True)]
    units: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 1
    usage: dict[Word, Count] = Field(default_factory=dict, max_length=50)
    ok: bool = True
    probe: bool = False
    learned: Annotated[tuple[LearnedArg, ...], Field(max_length=20)] = ()


class Pause(Verb[dict[str, Any]]):
    """The agent starts nothing more, until it is resumed or until then. For humans."""

    method: ClassVar[str] = "fabric.pause"
    result = plain()

    name: Word
    until: AwareDatetime | None = None
    note: Short = ""


class Resume(Verb[dict[str, Any]]):
    """The agent may start work again; with ``account`` also the account that a provider's limit closed."""

    method: ClassVar[str] = "fabric.resume"
    result = plain()

    name: Word
    account: bool = False


class Chunks(Verb[dict[str, Any]]):
    """Output of a run while it runs: (number, stream, text); numbers begin at 0 and a repeated one is ignored."""

    method: ClassVar[str] = "fabric.chunks"
    result = plain()

    fence: FenceArg
    chunks: Annotated[
        tuple[tuple[Count, Literal["out", "err", "trace"], Text], ...], Field(min_length=1, max_length=1000)
    ]


class ReadChunks(Verb[dict[str, Any]]):
    """The output of a run from a number on: ``epoch``, ``chunks`` with n, at, stream and text; for an agent that only
    called, without what came on other streams than ``out``."""

    method: ClassVar[str] = "fabric.chunks.read"
    result = plain()

    task: TaskId
    epoch: Count | None = None  # None = the latest run that said something
    after: Annotated[int, Field(ge=-1, lt=2**53, strict=True)] = -1
    limit: Annotated[int, Field(ge=1, le=1000, strict=True)] = 200
