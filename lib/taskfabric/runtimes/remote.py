"""The remote runtime: an A2A agent elsewhere carries out the task.

What is sent has a key of its own, and what it is called there is written down (``remote_record.py``): a worker that
was started again, or that got an answer to the other side's question, goes on with the same remote task. The other
side's credential comes from the environment variable that the card grants, and goes nowhere else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from taskfabric.domain.card import AgentCard, RemoteSpec
from taskfabric.domain.comments import LineKind
from taskfabric.domain.errors import BadInput, FabricError
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import Failed, Parked
from taskfabric.domain.task import Entry
from taskfabric.ports.runtime import DRAINED, Job, Progress, Result
from taskfabric.runtimes import limits, prompt
from taskfabric.runtimes.a2a_peer import Credential, Peer, PeerFault, Shape, check_url
from taskfabric.runtimes.remote_record import Record, Records, key_of
from taskfabric.runtimes.remote_result import ENDED, SETTLED, View

log = logging.getLogger(__name__)

_BUDGET: Final = 100_000  # characters of what is sent
_REST: Final = timedelta(minutes=1)  # while nobody answers there
_KEY_REST: Final = timedelta(minutes=10)  # a refused credential is not mended within a moment
_TRIES: Final = 5  # in a row without an answer, before the task rests
_FIRST_PAUSE: Final = 0.5  # seconds between two looks; doubled up to the longest
_LONGEST_PAUSE: Final = 10.0
_LAST: Final = 10.0  # seconds for a last word to the other side
_LOOK: Final = 0.5  # seconds between two looks whether the run must end
_ERROR: Final = 300  # characters of the other side's words


class Ended(Exception):
    """The run must end, for this reason."""


class RemoteRuntime:
    """Runs tasks at the card's address. Raises BadInput for a card without one that can be used."""

    def __init__(
        self,
        card: AgentCard,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        records: Records | None = None,
    ) -> None:
        try:
            check_url(card.url)
        except BadInput as error:
            said = f"{card.name} cannot be reached: {error.message}"
            raise BadInput(said, next=error.next, card=card.name) from error
        self._card = card
        self._spec = card.remote or RemoteSpec()
        self._clock = clock
        self._records = records or Records(None)
        self._records.clean()

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        credential: Credential | None = None
        if self._spec.key_env:
            secret = os.environ.get(self._spec.key_env, "").strip()
            if not secret:
                reason = f"{self._spec.key_env} is not set where {self._card.name} is run"
                return Result(outcome=Parked(until=self._clock() + _KEY_REST, reason=reason))
            credential = Credential(secret=secret, header=self._spec.header)
        with Peer(self._card.url, credential, patience=job.card.watchdog.total_seconds()) as peer:
            errand = _Errand(job=job, peer=peer, progress=progress, stopped=stopped, records=self._records)
            try:
                view = errand.carry_out()
            except Ended as why:
                errand.leave(str(why))
                return Result(outcome=Failed(error=f"it was ended: {why}"))
            except PeerFault as fault:
                return self._refused(job, fault)
        outcome, files = view.outcome(job.workspace / "artifacts")
        reply = view.reply if job.message is not None else None
        return Result(outcome=outcome, attachments=files, reply=reply)

    def close(self) -> None:
        """Nothing is kept between runs but the records."""

    def _refused(self, job: Job, fault: PeerFault) -> Result:
        """What a fault means: nobody there, a limit, a credential that is refused, or a refusal of this very task.
        Its own words are for the log."""
        log.warning("remote agent refused task=%s status=%s said=%s", job.fence, fault.status, fault.said[:_ERROR])
        if fault.error:
            final = fault.error not in ("InternalError", "InvalidAgentResponseError", "A2AClientError")
            self._records.drop(job.task)
            return Result(outcome=Failed(error=f"the remote agent refuses ({fault.error})", retry=not final))
        if fault.status in (401, 403):
            # Not the task's failure: it would spend the attempts of every task that waits.
            key = self._spec.key_env or "a call without a credential"
            reason = f"the remote agent refuses {key} ({fault.status})"
            return Result(outcome=Parked(until=self._clock() + _KEY_REST, reason=reason))
        if fault.status is not None and fault.status < 500 and fault.status not in (408, 429):
            self._records.drop(job.task)
            return Result(outcome=Failed(error=f"the remote agent answers {fault.status}", retry=False))
        limit = limits.classify(
            limits.Signal(
                status=fault.status,
                headers={str(k): str(v) for k, v in fault.headers.items()},
                text=fault.body or fault.said[:_ERROR],
                failed=True,
            ),
            now=self._clock(),
            host=UTC,
        )
        if limit.cls not in (LimitClass.EXHAUSTED, LimitClass.THROTTLE, LimitClass.OVERLOAD):
            how = "does not answer" if fault.status is None else f"answers {fault.status}"
            limit = Limit(cls=LimitClass.OVERLOAD, evidence=f"the remote agent {how}")
        until = limit.reopens or self._clock() + _REST
        return Result(outcome=Parked(until=until, reason=limit.evidence), limit=limit)


@dataclass(slots=True, kw_only=True)
class _Errand:
    """One run: the message on its way, and what is heard of it."""

    job: Job
    peer: Peer
    progress: Progress
    stopped: Callable[[], str | None]
    records: Records
    view: View = field(default_factory=View)
    record: Record | None = None
    _answered: bool = False  # something came of the message that was sent last
    _told: str = ""  # the last words of a status that were passed on
    _pause: threading.Event = field(default_factory=threading.Event)  # never set

    def carry_out(self) -> View:
        """The view when it has settled. Raises Ended, PeerFault."""
        job = self.job
        self.record = self.records.adopt(job.task, job.fence.epoch, job.thread)
        if self.record is not None and self.record.remote:
            if not self._resume(self.record):
                return self.view
        else:
            self._send_first()
        self._follow()
        return self.view

    def leave(self, why: str) -> None:
        """The run ends before its time: nobody works on for nothing. A worker that only stops for a while finds the
        remote task again, and so does a later run that has taken it over already."""
        task = self.job.task
        own = task.queue == self.job.card.name
        if self.record is None or not self.view.task_id or self.view.state in ENDED:
            return
        if (why == DRAINED and own) or not self.records.is_ours(task, self.job.fence.epoch):
            return
        try:
            self.peer.cancel(self.view.task_id, within=_LAST)
        except (PeerFault, FabricError) as error:
            log.warning("remote task not cancelled task=%s reason=%s", self.job.fence, error)
        self.records.drop(task)

    # ---------------------------------------------------------------- the ways in

    def _send_first(self) -> None:
        job = self.job
        if self.record is None:
            key = key_of(job.task, job.fence.epoch)
            # Another fabric queues it rather than telling us to come again; who does not know the word passes over it.
            patient = {"fabric/queue": True}
            message = {"messageId": key, "role": "ROLE_USER", "parts": self._parts(), "metadata": patient}
            epoch = job.fence.epoch
            self._keep(Record(key=key, begun=epoch, epoch=epoch, message=message))
        assert self.record is not None
        self._send(self.record.message, self.record.key)

    def _resume(self, record: Record) -> bool:
        """Go on with the remote task; False when that is settled, or when there is nothing to say to it yet."""
        try:
            self.view.take_task(self._patiently(lambda: self.peer.get(record.remote)))
        except PeerFault as fault:
            if fault.error != "TaskNotFoundError":
                raise
            log.warning("remote task is gone task=%s remote=%s", self.job.fence, record.remote)
            self.record = None
            self._send_first()
            return True
        if self.view.state in ENDED:
            return False
        if self.view.state not in SETTLED:
            return True
        answer, last = self._answer(record)
        if not answer:
            return False
        self._keep(replace(record, answered=last))
        key = f"{record.key}+{self.job.fence.epoch}"
        message = {
            "messageId": key,
            "taskId": record.remote,
            "contextId": self.view.context,
            "role": "ROLE_USER",
            "parts": answer,
        }
        self.view.state = ""
        self._send(message, key)
        return True

    def _parts(self) -> list[dict[str, Any]]:
        """What is sent: the caller's own parts where the task came by A2A, else the task in one text."""
        if self.job.message is not None:
            return [dict(part) for part in self.job.message.get("parts", ())]
        return [{"text": prompt.compose(self.job, budget=_BUDGET)}]

    def _answer(self, record: Record) -> tuple[list[dict[str, Any]], int]:
        """What was said since the question was asked and went there in no run before, and its last line; [] for nothing
        yet."""
        said: list[Entry] = []
        for entry in self.job.thread:
            if entry.kind == LineKind.QUESTION.value:
                said = []
            elif entry.kind in ("", LineKind.ANSWER.value) and entry.text.strip() and entry.id > record.answered:
                said.append(entry)
        if not said:
            return [], 0
        if self.job.message is not None:
            return self._parts(), said[-1].id
        return [{"text": "\n\n".join(entry.text.strip() for entry in said)}], said[-1].id

    # ---------------------------------------------------------------- listening

    def _send(self, message: Shape, key: str) -> None:
        """The message is with the other side. While it is not known to be, it is sent again under its key."""
        streams = self._patiently(self._streams)
        self._answered = False

        def send() -> None:
            try:
                self._listen(self.peer.send(message, stream=streams, immediately=not streams, key=key))
            except PeerFault as fault:
                if not (fault.is_silence and self._answered):
                    raise

        self._patiently(send)
        if not self._answered:
            raise PeerFault("it answers with nothing", error="InvalidAgentResponseError")

    def _follow(self) -> None:
        """Until it has settled: by its stream where it has one, else by looking now and then."""
        pause = _FIRST_PAUSE
        while not self._settled():
            if self._patiently(self._streams):
                self._patiently(self._subscribe)
            if self._settled():
                return
            self._rest(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
            if self._look():
                pause = _FIRST_PAUSE

    def _streams(self) -> bool:
        return self.peer.streams

    def _subscribe(self) -> None:
        try:
            self._listen(self.peer.subscribe(self.view.task_id))
        except PeerFault as fault:
            if not fault.error:
                raise  # nobody answers; everything else is told by the look that follows

    def _look(self) -> bool:
        """Whether something has changed."""
        before = (self.view.state, self.view.said)
        self._heard({"task": self._patiently(lambda: self.peer.get(self.view.task_id))})
        return (self.view.state, self.view.said) != before

    def _listen(self, events: Iterator[dict[str, Any] | None]) -> None:
        looked = time.monotonic()
        for event in events:
            if event is not None:
                self._heard(event)
            if self._settled():
                return
            if event is None or time.monotonic() - looked > _LOOK:  # also of one who never falls silent
                looked = time.monotonic()
                if why := self.stopped():
                    raise Ended(why)

    def _heard(self, event: Shape) -> None:
        before = self.view.state
        self._answered = True
        self.view.take(event)
        if self.record is not None and self.view.task_id and self.view.task_id != self.record.remote:
            self._keep(replace(self.record, remote=self.view.task_id, context=self.view.context))
        if "artifactUpdate" in event:
            update = event["artifactUpdate"]
            self.progress.artifact({k: update[k] for k in ("artifact", "append", "lastChunk") if k in update})
        elif self.view.said and self.view.said != self._told and self.view.state not in SETTLED:
            self._told = self.view.said
            self.progress.chunk(f"{self.view.said}\n", stream="err")  # on the way, not the result
        elif self.view.state != before:
            self.progress.touch()

    def _keep(self, record: Record) -> None:
        self.record = record
        self.records.write(self.job.task, record)

    def _settled(self) -> bool:
        return self.view.reply is not None or self.view.state in SETTLED

    # ---------------------------------------------------------------- patience

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        """What it answers; where nobody does it is asked again, a few times. Raises Ended, PeerFault."""
        pause, left = _FIRST_PAUSE, _TRIES
        while True:
            try:
                return ask()
            except PeerFault as fault:
                left -= 1
                if not fault.is_silence or not left or "retry-after" in {str(k).lower() for k in fault.headers}:
                    raise
                log.info("remote agent silent task=%s reason=%s", self.job.fence, fault.said)
            self._rest(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _rest(self, seconds: float) -> None:
        left = seconds
        while left > 0:
            if why := self.stopped():
                raise Ended(why)
            self._pause.wait(min(left, 0.5))
            left -= 0.5


def records_in(keep: Path | None) -> Records:
    """The records of remote tasks below this folder."""
    return Records(None if keep is None else keep / "remote")


__all__ = ["RemoteRuntime", "records_in"]
