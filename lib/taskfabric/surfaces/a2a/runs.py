"""Runs in the server: a model or a remote agent works off a task for a caller, under a lease taken before.

Everything of a run happens in one thread: the start on the board, the runtime, the end on the board. Whoever waits is
told twice: when the task is there, and when the run is over.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, assert_never

from taskfabric.domain.card import AgentCard
from taskfabric.domain.errors import FabricError, LeaseLost, NotFound, Unavailable
from taskfabric.domain.lease import Fence
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import (
    Declined,
    Done,
    Failed,
    Outcome,
    Parked,
    Released,
    Waiting,
    WaitingOnChildren,
)
from taskfabric.domain.outcome_shape import outcome_of, shape_of
from taskfabric.domain.outcome_text import WHOLE, cut, short, sound
from taskfabric.domain.principal import Caller, Principal, Via
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed, Task, instant
from taskfabric.ports.a2a import Seen, Started, Told
from taskfabric.ports.board import NewFile
from taskfabric.ports.runtime import DRAINED, Job, Result, Runtime
from taskfabric.runtimes.incidents import incident
from taskfabric.services import a2a_text, fleet_verbs, verbs
from taskfabric.services.a2a import A2A, Agent, stamp_of
from taskfabric.surfaces.a2a.crew import Crew, Gate
from taskfabric.surfaces.a2a.progress import Streaming
from taskfabric.surfaces.a2a.renewing import Held, Renewing
from taskfabric.surfaces.a2a.spool import Spool
from taskfabric.surfaces.edge import AGENTS
from taskfabric.wiring import House

log = logging.getLogger(__name__)

Make = Callable[[AgentCard], Runtime]

_GRACE: Final = 20.0  # seconds that a run has to end once it is told to
_LAST: Final = 5.0  # seconds that runs have when the server stops
_A_WHILE: Final = timedelta(minutes=1)
_IDLE: Final = 8  # runtimes that are kept for a card


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """What a run needs to know."""

    agent: Agent
    claimed: Claimed
    a2a_id: str
    context: str
    message: Mapping[str, Any] | None  # that it answers


class Runs:
    """The server's own runtimes. ``make`` makes one for a card, or raises why there can be none."""

    def __init__(self, house: House, a2a: A2A, make: Make, *, threads: int, url: str, spool: Path | None) -> None:
        """``spool``: where results wait while the board is away; None = they are lost then."""
        self._house = house
        self._a2a = a2a
        self._make = make
        self._url = url
        self.crew = Crew(most=threads)
        self.gate = Gate(AGENTS - 1)
        self._renewing = Renewing(house.board, house.signal)
        self.spool = None if spool is None else Spool(spool, self._offer)
        self._lock = threading.Lock()
        self._idle: dict[str, list[_Place]] = {}

    def start(self) -> None:
        """Leases are renewed from now on."""
        self._renewing.start()
        if self.spool is not None:
            self.spool.start()

    def dismiss(self) -> None:
        """The server stops: runs are told to end, and what they have not finished goes back to the board."""
        self.crew.stop()
        self._renewing.stop(DRAINED)

    def close(self) -> None:
        """Nothing runs any more, or is waited for."""
        self.dismiss()
        deadline = time.monotonic() + _LAST
        while self.crew.busy and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        self._renewing.close()
        if self.spool is not None:
            self.spool.close()
        with self._lock:
            for place in (place for kept in self._idle.values() for place in kept):
                place.close()
            self._idle.clear()

    def stop(self, task_id: int, why: str) -> None:
        """The run of this task, if there is one here, is to end."""
        self._renewing.tell(task_id, why)

    def begin(self, agent: Agent, start: Callable[[], Started], told: Callable[[Started], None]) -> Seen | Started:
        """In a thread of the crew: start it, say so, work it off. The task as it stands afterwards, or, where it is
        somebody else's to work off, how it was started. Raises what ``start`` raises."""
        reservation = self._reserved(agent) if agent.direct and self._a2a.counted(agent.card) else None
        try:
            with self.gate:
                started = start()
        except BaseException:
            self._spent(agent, reservation, None)
            raise
        told(started)
        if started.claimed is None:
            self._spent(agent, reservation, None)
            return started
        seen = started.seen
        spell = Spell(
            agent=agent,
            claimed=started.claimed,
            a2a_id=seen.id,
            context=seen.context,
            message=self._a2a.said(seen),
        )
        done = self._carry_out(spell, reservation)
        if done is not None and not any(told.kind == "artifact" for told in seen.told):
            return self._a2a.finished(seen, done)
        with self.gate:
            return self._a2a.again(seen)

    # ---------------------------------------------------------------- one run

    def _carry_out(self, spell: Spell, reservation: int | None) -> Task | None:
        """The task, if its run has finished it with a note and nothing else was told."""
        held = self._renewing.hold(spell.agent, spell.claimed.fence)
        streaming = Streaming(lambda updates: self._tell(spell, updates), lambda n, text: self._say(spell, n, text))
        result: Result | None = None
        try:
            result, files = self._ran(spell, held, streaming)
            return self._end(spell, held, streaming, result, files)
        except (LeaseLost, NotFound) as error:
            log.info("end not accepted task=%s reason=%s", spell.claimed.fence, error.message)
        except Unavailable as error:  # the lease runs out, and the next one tries
            log.warning("end not told task=%s reason=%s", spell.claimed.fence, error.message)
        finally:
            self._renewing.let_go(held)
            self._spent(spell.agent, reservation, result)
        return None

    def _tell(self, spell: Spell, updates: list[Mapping[str, Any]]) -> None:
        """What the run says is told; what cannot be told now is lost to the stream, never to the result."""
        ids = {"taskId": spell.a2a_id, "contextId": spell.context}
        try:
            with self.gate:
                self._a2a.tell(
                    spell.claimed, spell.a2a_id, [{"artifactUpdate": {**ids, **update}} for update in updates]
                )
        except FabricError as error:
            log.warning("output not told task=%s reason=%s", spell.claimed.fence, error.message)

    def _say(self, spell: Spell, n: int, text: str) -> None:
        """The same for the task's output, as people see it."""
        verb = fleet_verbs.Chunks(fence=verbs.FenceArg.of(spell.claimed.fence), chunks=((n, "out", text),))
        try:
            with self.gate:
                self._house.hallway.call(spell.agent.caller, verb)
        except FabricError as error:
            log.warning("output not kept task=%s reason=%s", spell.claimed.fence, error.message)

    def _ran(self, spell: Spell, held: Held, streaming: Streaming) -> tuple[Result, list[NewFile]]:
        card = spell.agent.card
        try:
            place = self._take(card)
        except FabricError as error:
            return Result(outcome=Failed(error=error.message)), []
        deadline = time.monotonic() + card.max_runtime.total_seconds()

        def stopped() -> str | None:
            now = time.monotonic()
            if not held.why and now > deadline:
                held.stop("out of time")
            if not held.why and now - streaming.moved > card.watchdog.total_seconds():
                held.stop("no sign of progress")
            return held.why or None

        whole = False
        files: list[NewFile] = []
        try:
            result = _checked(place.runtime.run(self._job(spell, place.folder), streaming, stopped))
            files = self._kept(result.attachments)
            whole = True
        except FabricError as error:
            result = Result(outcome=Failed(error=error.message))
        except Exception as error:
            result = Result(outcome=Failed(error=incident("the agent failed", spell.claimed.fence, error=error)))
        finally:
            self._give_back(place, whole=whole)
        return result, files

    def _job(self, spell: Spell, folder: Path) -> Job:
        card = spell.agent.card
        with self.gate:
            thread = self._a2a.thread(spell.agent, spell.claimed)
        return Job(
            task=spell.claimed.task,
            fence=spell.claimed.fence,
            card=card,
            thread=thread,
            persona=self._a2a.persona(card) if card.persona else "",
            workspace=folder,
            url=self._url,
            deadline=datetime.now(UTC) + card.max_runtime,
            message=spell.message,
            context=spell.context,
        )

    def _kept(self, paths: tuple[Path, ...]) -> list[NewFile]:
        """Their bytes are in the file store."""
        kept = [(path.name, path.read_bytes()) for path in paths]
        return [NewFile(name=name, size=len(data), sha256=self._house.files.put(data)) for name, data in kept]

    # ---------------------------------------------------------------- its end

    def _end(self, spell: Spell, held: Held, streaming: Streaming, result: Result, files: list[NewFile]) -> Task | None:
        fence, stamp = spell.claimed.fence, spell.agent.stamp
        outcome = self._outcome(spell, held, result)
        if result.reply is not None and isinstance(outcome, Done):
            with self.gate:
                self._a2a.reply(spell.agent, spell.claimed, spell.a2a_id, _reply(spell, result.reply))
            return None
        if isinstance(outcome, Done):
            note, whole = cut(outcome.note)
            if whole is not None:
                outcome = replace(outcome, note=note)
                files = [*files, NewFile(name=WHOLE, size=len(whole), sha256=self._house.files.put(whole))]
        streaming.finish(outcome.note if isinstance(outcome, Done) else None)
        if isinstance(outcome, Waiting) and outcome.of_id is None:
            asked = self._house.credentials.principal(spell.claimed.task.on_behalf or spell.claimed.task.submitter_id)
            outcome = replace(outcome, of_id=None if asked is None else asked.id)
        held.ending = True
        try:
            with self.gate:
                task = self._house.board.settle(fence, outcome, stamp, files)
        except Unavailable:
            self._keep(spell, outcome, files)
            raise
        return task if isinstance(outcome, Done) and not files and not streaming.told else None

    def _keep(self, spell: Spell, outcome: Outcome, files: list[NewFile]) -> None:
        """The end waits for the board, with its fence (G14)."""
        if self.spool is None:
            return
        fence = spell.claimed.fence
        self.spool.put(
            f"{fence.task_id}-{fence.epoch}",
            {
                "agent": spell.agent.principal.id,
                "fence": [fence.task_id, fence.epoch, fence.hex],
                "outcome": shape_of(outcome),
                "files": [[file.name, file.size, file.sha256] for file in files],
            },
        )

    def _offer(self, shape: Mapping[str, Any]) -> None:
        """Tell the board what waited for it. Raises Unavailable while it is away, and why it does not take it."""
        principal = self._a2a.person(int(shape["agent"]))
        if principal is None:
            raise NotFound("the agent is not there any more")
        if "message" in shape:
            self._offer_answer(shape, principal)
            return
        fence = Fence.parse(*shape["fence"])
        files = [NewFile(name=name, size=size, sha256=sha256) for name, size, sha256 in shape["files"]]
        with self.gate:
            self._house.board.settle(fence, outcome_of(shape["outcome"]), stamp_of(principal), files)

    # ---------------------------------------------------------------- while the board is away

    def without_the_board(self, agent: Agent, caller: Caller, message: Mapping[str, Any]) -> Seen:
        """The agent's answer, of which the board is told when it is back. Raises Unavailable where it has none."""
        if self.spool is None:
            raise Unavailable("the board is away")
        a2a_id, context = str(uuid.uuid4()), message.get("contextId") or str(uuid.uuid4())
        now = datetime.now(UTC)
        whole = {**message, "taskId": a2a_id, "contextId": context}
        task = Task(
            id=0,
            queue=agent.queue.name,
            project_id=agent.queue.project_id,
            title=a2a_text.title_of(message, caller.principal.name),
            description=a2a_text.description_of(message),
            status=Status.WORKING,
            submitter=caller.principal.name,
            trust=caller.principal.trust,
            created=now,
            updated_at=now,
        )
        fence = Fence(task_id=0, epoch=0, token=secrets.randbits(64))
        spell = Spell(
            agent=agent, claimed=Claimed(task=task, fence=fence), a2a_id=a2a_id, context=context, message=whole
        )
        held = Held(fence=fence, stamp=agent.stamp, length=0.0, trusted_until=0.0, due=0.0)
        result, _ = self._ran(spell, held, Streaming(lambda updates: None, lambda n, text: None))
        if not isinstance(result.outcome, Done) or result.reply is not None:
            raise Unavailable(f"{agent.card.name} has no answer while the board is away")
        note, _ = cut(sound(result.outcome.note).strip())
        self.spool.put(
            a2a_id,
            {
                "agent": agent.principal.id,
                "caller": caller.principal.id,
                "id": a2a_id,
                "message": {**message, "contextId": context},
                "note": note,
            },
        )
        seen = Seen(
            id=a2a_id,
            task_id=0,
            owner_id=caller.principal.id,
            agent_id=agent.principal.id,
            context=context,
            state=None,
            seq=1,
            changed=now,
            current=True,
            follows=None,
            told=(Told(n=1, kind="message", body={"message": whole}),),
        )
        spooled = replace(task, note=note, updated_at=now)
        return replace(self._a2a.finished(seen, spooled), status=a2a_text.SPOOLED)

    def _offer_answer(self, shape: Mapping[str, Any], principal: Principal) -> None:
        caller = self._a2a.person(int(shape["caller"]))
        if caller is None:
            raise NotFound("the caller is not there any more")
        who = Caller(principal=caller, via=Via.TOKEN)
        agent = self._a2a.agent(who, principal.name)
        with self.gate:
            started = self._a2a.send(who, agent, shape["message"], f"degraded/{shape['id']}", a2a_id=shape["id"])
            if started.claimed is not None:
                self._house.board.settle(started.claimed.fence, Done(note=shape["note"]), agent.stamp)

    def _outcome(self, spell: Spell, held: Held, result: Result) -> Outcome:
        """What is told to the board: a limit parks, a stop gives back, a failure is tried again only where a worker of
        the agent would."""
        outcome = result.outcome
        until = self._limited(spell, result.limit)
        if isinstance(outcome, Failed) and held.why == DRAINED:
            return Released(reason=DRAINED, drained=True)
        if isinstance(outcome, Failed) and until is not None:
            return Parked(until=until, reason=outcome.error[:2000])
        match outcome:
            case Done():
                note = sound(outcome.note).strip()
                if not note and result.reply is None:
                    return Failed(error="it ended without a result", retry=False)
                return outcome if note == outcome.note else replace(outcome, note=note or "replied")
            case Failed():
                error = short(outcome.error, "it failed without a reason")
                return Failed(error=error, retry=outcome.retry and spell.agent.manned)
            case Waiting():
                return replace(outcome, question=short(outcome.question, "How shall I go on?", 20_000))
            case Declined():
                return Declined(reason=short(outcome.reason, "it was refused without a reason"))
            case Parked() | Released() | WaitingOnChildren():
                return outcome
            case _:
                assert_never(outcome)

    # ---------------------------------------------------------------- quota

    def _reserved(self, agent: Agent) -> int:
        """Quota is put aside for one run. Raises Unavailable with the instant from which there is some."""
        with self.gate:
            answer = self._house.hallway.call(agent.caller, fleet_verbs.Reserve(interactive=True, instance="gateway"))
        if answer["granted"]:
            return int(answer["reservation"])
        raise Unavailable(
            f"{agent.card.name} takes no work now: its quota is spent",
            next="come again later",
            until=answer["until"],
            busy=True,
            sent=False,
        )

    def _spent(self, agent: Agent, reservation: int | None, result: Result | None) -> None:
        if reservation is None:
            return
        usage = {name: max(0, value) for name, value in (result.usage if result else {}).items()}
        ok = result is not None and not isinstance(result.outcome, Failed | Released)
        units = 0 if result is None else 1
        try:
            with self.gate:
                self._house.hallway.call(
                    agent.caller, fleet_verbs.Spent(reservation=reservation, units=units, usage=usage, ok=ok)
                )
        except FabricError as error:
            log.warning("cost not told agent=%s reason=%s", agent.card.name, error.message)

    def _limited(self, spell: Spell, limit: Limit | None) -> datetime | None:
        """The limit is told; until when to keep away, if it stopped the run."""
        if limit is None or limit.cls in (LimitClass.OK, LimitClass.WARNING, LimitClass.UNKNOWN):
            return None
        arg = fleet_verbs.LimitArg.of(replace(limit, evidence=limit.evidence[:200]))
        fence = verbs.FenceArg.of(spell.claimed.fence)
        try:
            with self.gate:
                answer = self._house.hallway.call(
                    spell.agent.caller, fleet_verbs.Limited(limit=arg, fence=fence, instance="gateway")
                )
        except FabricError as error:
            log.warning("limit not told agent=%s reason=%s", spell.agent.card.name, error.message)
            return limit.reopens or datetime.now(UTC) + _A_WHILE
        return instant(answer["until"])

    # ---------------------------------------------------------------- runtimes

    def _take(self, card: AgentCard) -> _Place:
        with self._lock:
            kept = self._idle.get(card.name, [])
            while kept:
                place = kept.pop()
                if place.card == card:
                    return place
                place.close()
        return _Place(card=card, runtime=self._make(card), folder=Path(tempfile.mkdtemp(prefix="fabric-a2a-")))

    def _give_back(self, place: _Place, *, whole: bool) -> None:
        with self._lock:
            kept = self._idle.setdefault(place.card.name, [])
            if whole and len(kept) < _IDLE:
                place.empty()
                kept.append(place)
                return
        place.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A runtime with a folder of its own: for one run after the other."""

    card: AgentCard
    runtime: Runtime
    folder: Path

    def empty(self) -> None:
        """Nothing of the last run is in the folder."""
        with os.scandir(self.folder) as found:
            left = any(found)
        if left:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)

    def close(self) -> None:
        """Nothing of it is left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.runtime.close()


def _checked(result: object) -> Result:
    """What a runtime returned, which types alone do not bind: a task must end."""
    return result if isinstance(result, Result) else Result(outcome=Failed(error="it ended without an outcome"))


def _reply(spell: Spell, message: Mapping[str, Any]) -> dict[str, Any]:
    """A direct message: the agent's, in this context, and of no task."""
    said = {name: value for name, value in message.items() if name != "taskId"}
    return {"messageId": spell.a2a_id, **said, "role": "ROLE_AGENT", "contextId": spell.context}
