"""Agents as callers over A2A reach them: whom may this caller address, and what does his message become.

The board's row is the task. A message to an agent that runs in the server starts it under a lease of the gateway; one
to an agent that needs its machine is put into that agent's own queue, whose worker is woken.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.availability import Availability
from taskfabric.domain.card import AgentCard, CardKind, Cost
from taskfabric.domain.errors import BadInput, IllegalMove, KeyConflict, NotFound, Refused, Unavailable, not_found
from taskfabric.domain.principal import Caller, Kind, Principal, Stamp, Via
from taskfabric.domain.queue import Queue
from taskfabric.domain.status import A2AState
from taskfabric.domain.task import Claimed, Entry, NewTask, Task
from taskfabric.ports.a2a import INTERRUPTED, TERMINAL, A2ABoard, Answer, Asked, Opening, Places, Seen, Started, Told
from taskfabric.ports.board import NewFile, Want
from taskfabric.services import a2a_text, policy, text, verbs
from taskfabric.services.desk import Desk
from taskfabric.services.manning import Manning
from taskfabric.services.openings import Openings
from taskfabric.services.submit import Submitting

log = logging.getLogger(__name__)

DIRECT: Final = frozenset({CardKind.MODEL, CardKind.REMOTE})  # run in the server
GATEWAY: Final = "gateway"

_FRESH: Final = 1.0  # seconds for which a look at an agent is used again
_LONGEST_ID: Final = 128  # characters
_FILES: Final = 20
_MANY: Final = 10_000  # pairs of caller and agent that are remembered
_FILLED: Final = 4 << 20  # bytes of a file that is answered whole
_ANSWER: Final = 20 << 20  # characters of all files in one answer
_QUEUED: Final = "fabric/queue"  # in a message's metadata: rather queued than refused
_KEY: Final = "idempotencyKey"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that can be addressed, as it was at most a second ago."""

    card: AgentCard
    principal: Principal
    queue: Queue
    open: Availability
    manned: bool  # a worker of it runs
    left: bool  # a worker of it has just gone
    stamp: Stamp  # who holds the leases of its runs in the server
    caller: Caller  # and who speaks for them
    want: Want  # what those may take

    @property
    def direct(self) -> bool:
        return self.card.kind in DIRECT


def stamp_of(me: Principal) -> Stamp:
    """Who holds the leases of an agent's runs in the server."""
    return Stamp(principal_id=me.id, name=me.name, kind=Kind.AGENT, trust=me.trust, via=Via.SYSTEM, instance=GATEWAY)


def _want(card: AgentCard, me: Principal, queue: Queue) -> Want:
    """Its own queue, as many at once as its card says."""
    return Want(
        queues=(queue.project_id,),
        own=frozenset({queue.project_id}),
        tiers=me.tiers,
        capabilities=me.capabilities,
        trust=me.trust,
        lease=card.lease,
        concurrency=card.concurrency,
    )


class A2A:
    """The room of the hallway for callers over A2A."""

    def __init__(self, desk: Desk, board: A2ABoard, manning: Manning, call: Callable[[Caller, Any], Any]) -> None:
        self._desk = desk
        self._board = board
        self._manning = manning
        self._submitting = Submitting(desk)
        self._openings = Openings(desk)
        self._call = call
        self._agents: dict[str, tuple[float, Agent | None]] = {}
        self._drafts: dict[tuple[int, int, int], tuple[tuple[Principal, Queue], NewTask]] = {}
        self._met: set[tuple[int, str]] = set()  # who has called whom

    # -- whom ----------------------------------------------------------------------------------------

    def card(self, name: str) -> AgentCard | None:
        """The card of an enabled agent, whoever asks."""
        card = self._desk.cards.deck().cards.get(name)
        return card if card is not None and card.enabled and card.kind is not CardKind.HUMAN else None

    def agent(self, caller: Caller, name: str) -> Agent:
        """Raises NotFound for an agent that is not there and for one that this caller may not address, alike."""
        found = self._agent(name)
        if found is None or policy.may_submit(self._desk, caller, found.queue) is not None:
            raise not_found("agent")
        if len(self._met) < _MANY:
            self._met.add((caller.principal.id, name))
        return found

    def without_the_board(self, caller: Caller, name: str) -> Agent | None:
        """The agent as it was last seen, for a caller who has called it before; None unless its card says that it may
        answer while the board is away, and has no tools that could change anything."""
        _, found = self._agents.get(name, (0.0, None))
        if found is None or (caller.principal.id, name) not in self._met or caller.run is not None:
            return None
        card = self.card(name)
        fits = card is not None and card.degraded and card.kind is CardKind.MODEL and not card.tools
        return found if fits else None

    def forget(self) -> None:
        """What was seen of the agents is looked at again with the next call."""
        self._agents.clear()

    def _agent(self, name: str) -> Agent | None:
        now = time.monotonic()
        kept = self._agents.get(name)
        if kept is not None and now < kept[0]:
            return kept[1]
        card = self.card(name)
        found = None if card is None else self._look(card)
        if found is not None or name in self._agents:
            self._agents[name] = (now + _FRESH, found)
        return found

    def _look(self, card: AgentCard) -> Agent | None:
        self._manning.try_refresh()
        principal = self._desk.person(card.name)
        if principal is None or principal.kind is not Kind.AGENT:
            return None
        queue = next((q for q in self._desk.projects.queues_of(principal.id) if q.owner_id == principal.id), None)
        if queue is None:
            return None
        look = self._openings.look([card])
        live = look.live(card)
        # The server's own runs need no worker; but what each worker says it cannot do, the server cannot either.
        unable = bool(live) and all(worker.state == "closed" for worker in live)
        return Agent(
            card=card,
            principal=principal,
            queue=queue,
            open=look.at(card) if card.kind in DIRECT and not unable else look.seen(card),
            manned=bool(live) and not unable,
            left=look.left(card),
            stamp=stamp_of(principal),
            caller=Caller(principal=principal, via=Via.SYSTEM, instance=GATEWAY),
            want=_want(card, principal, queue),
        )

    # -- sending -------------------------------------------------------------------------------------

    def send(
        self, caller: Caller, agent: Agent, message: Mapping[str, Any], key: str | None, *, a2a_id: str = ""
    ) -> Started:
        """The message has become a task, or goes on with one. A lease in the answer is to be worked off by the caller
        of this method.

        Raises Unavailable (``busy``: closed until an instant, or full), NotFound (a task that is not there or not the
        caller's), IllegalMove (a task that takes no message now), BadInput, KeyConflict, and what a submit raises."""
        inside = key_of(message)
        if key is not None and inside not in (None, key):
            raise BadInput("the message and its header name two idempotency keys", field=_KEY, next="give one of them")
        key = key or inside
        try:
            if message.get("taskId"):
                return self._go_on(caller, agent, message, key)
            return self._begin(caller, agent, message, key, a2a_id or str(uuid.uuid4()))
        except KeyConflict:
            raise KeyConflict(
                f"the idempotency key {key!r} was used before for another message",
                next="use another key, or send exactly the same message again",
                field=_KEY,
            ) from None

    def _begin(self, caller: Caller, agent: Agent, message: Mapping[str, Any], key: str | None, a2a_id: str) -> Started:
        patient = is_patient(message)
        files = self._files(message)
        if not agent.open.open and not patient:
            # Which part closes it, and not its reason: that may be an error that somebody else's task has met.
            shut = ", ".join(part.name for part in agent.open.parts if not part.open and not part.background)
            raise _busy(agent, f"closed is {shut}" if shut else "it is closed", agent.open.until)
        related = self._related(caller, agent, message)
        new = self._new(caller, agent, message, key, priority=3 if not agent.direct and not patient else 0)
        opening = _opening(agent, message, a2a_id, related)
        if files:
            opening = replace(opening, files=self._kept(files))
        limits = self._desk.rules.limits
        try:
            if agent.direct and agent.open.open and new.hold is None:
                return self._board.start(new, caller.stamp(), limits, opening, agent.stamp, agent.want)
            places = None if patient or agent.direct else Places(holder=agent.stamp, most=agent.card.concurrency)
            return self._board.queue(new, caller.stamp(), limits, opening, places)
        except Refused as error:
            if error.facts.get("rule") != "concurrency":
                raise
            if not patient:
                raise _busy(agent, "all its places are taken", None) from None
        return self._board.queue(new, caller.stamp(), limits, opening, None)

    def _files(self, message: Mapping[str, Any]) -> list[tuple[str, bytes]]:
        """The files in it. Raises BadInput: too many, or one is too large."""
        found, limit = _files(message), self._desk.rules.attachment
        if any(len(data) > limit for _, data in found):
            raise BadInput(f"a file has at most {limit} bytes", field="raw", limit=limit)
        return found

    def _kept(self, files: list[tuple[str, bytes]]) -> tuple[NewFile, ...]:
        """Their bytes are in the file store, for the row that is to have them."""
        put = self._desk.files.put
        return tuple(NewFile(name=name, size=len(data), sha256=put(data)) for name, data in files)

    def _new(
        self, caller: Caller, agent: Agent, message: Mapping[str, Any], key: str | None, *, priority: int
    ) -> NewTask:
        title, description = a2a_text.title_of(message, caller.principal.name), a2a_text.description_of(message)
        links = tuple(p["url"] for p in message["parts"] if str(p.get("url", "")).startswith(("https:", "http:")))[:50]
        place = (caller.principal.id, agent.queue.project_id, priority)
        alike = caller.principal, agent.queue
        if key is None and not links and caller.run is None:
            # What a plain message becomes is, but for its words, a matter of who sends it where.
            kept = self._drafts.get(place)
            if kept is not None and kept[0] == alike:
                rules = self._desk.rules
                return replace(
                    kept[1], title=text.title(title, rules), description=text.description(description, rules)
                )
        verb = verbs.Submit(
            title=title,
            to=agent.card.name,
            description=description,
            refs=links,
            priority=priority,
            key=_named(agent, key),
        )
        new = self._submitting.prepared(caller, verb, agent.queue)
        if key is not None:
            return replace(new, body_hash=a2a_text.hash_of(agent.card.name, message))
        if not links and caller.run is None and len(self._drafts) < _MANY:
            self._drafts[place] = (alike, new)
        return new

    def _related(self, caller: Caller, agent: Agent, message: Mapping[str, Any]) -> tuple[int, ...]:
        """The rows that it refers to. Raises BadInput, alike for a foreign task and for one that is not there."""
        try:
            found = [self.find(caller, agent, other).task_id for other in message.get("referenceTaskIds", ())]
        except NotFound:
            raise BadInput("a task that it refers to is not known", field="referenceTaskIds") from None
        return tuple(sorted(set(found)))

    def _go_on(self, caller: Caller, agent: Agent, message: Mapping[str, Any], key: str | None) -> Started:
        seen = self.find(caller, agent, str(message["taskId"]))
        if message.get("contextId") not in (None, "", seen.context):
            raise BadInput("that task belongs to another context", field="contextId")
        answer = Answer(
            text=a2a_text.text_of(message),
            message={**message, "contextId": seen.context},
            key=_named(agent, key),
            body_hash=a2a_text.hash_of(agent.card.name, message),
        )
        if key is not None and self._board.answered(seen, answer, caller.stamp()):
            return Started(seen=seen, claimed=None, created=False)
        if seen.state not in INTERRUPTED:
            done = seen.state in TERMINAL
            goes_on = "has not begun yet" if seen.state is A2AState.SUBMITTED else "is being worked on"
            raise IllegalMove(
                f"that task {'has ended' if done else goes_on}",
                next="begin a new task in its context" if done else "wait until it asks, or cancel it",
            )
        policy.refuse_in_run(caller, "answering a question")
        if self._desk.approvals.is_pending(seen.task_id):
            raise IllegalMove("that task waits for a person's decision", next="wait until it is taken, or cancel it")
        answer = replace(answer, files=self._kept(self._files(message)))
        direct = agent.direct and agent.open.open
        claimed = self._board.proceed(
            seen, answer, caller.stamp(), agent.stamp if direct else None, agent.want if direct else None
        )
        return Started(seen=self.find(caller, agent, seen.id), claimed=claimed, created=False)

    def withdraw(self, caller: Caller, agent: Agent, seen: Seen) -> bool:
        """Nobody came for it in time: it is rejected, unless somebody just did."""
        return self._board.withdraw(seen.task_id, caller.stamp(), f"no idle place at {agent.card.name}")

    # -- looking -------------------------------------------------------------------------------------

    def find(self, caller: Caller, agent: Agent, a2a_id: str) -> Seen:
        """Raises NotFound for a task that is not there, is not the caller's, or is no task."""
        if not a2a_id or len(a2a_id) > _LONGEST_ID:
            raise not_found("task")
        seen = self._board.find(a2a_id, caller.principal.id, agent.principal.id)
        if seen.state is None:
            raise not_found("task")
        return seen

    def again(self, seen: Seen) -> Seen:
        """The same as it is now, a direct message included."""
        return self._board.find(seen.id, seen.owner_id, seen.agent_id)

    def finished(self, seen: Seen, task: Task) -> Seen:
        """The same after this finish, where its run has told nothing else."""
        return self._board.finished(seen, task)

    def told(self, a2a_id: str, after: int) -> list[Told]:
        return self._board.told(a2a_id, after)

    def listed(self, asked: Asked) -> tuple[list[Seen], int]:
        return self._board.list(asked)

    def ends(self, a2a_ids: list[str]) -> dict[str, Any]:
        return dict(self._board.ends(a2a_ids))

    def task(
        self, seen: Seen, *, history: int | None = None, artifacts: bool = True, fill: a2a_text.Fill | None = None
    ) -> dict[str, Any]:
        """A2A's Task. Of its files the first so many bytes are in it, or what is left of them in ``fill``."""
        return a2a_text.task_of(seen, history=history, artifacts=artifacts, fill=fill or self.filling())

    def filling(self) -> a2a_text.Fill:
        """Fills the files of one answer, until that is large enough."""
        left = _ANSWER

        def fill(sha256: str, name: str) -> str | None:
            nonlocal left
            data = self.fill(sha256, name) if left > 0 else None
            left -= len(data or "")
            return data if left >= 0 else None

        return fill

    def fill(self, sha256: str, name: str) -> str | None:
        try:
            data = self._desk.files.get(sha256)
        except NotFound:
            return None
        return base64.b64encode(data).decode() if len(data) <= _FILLED else None

    # -- ending --------------------------------------------------------------------------------------

    def cancel(self, caller: Caller, agent: Agent, a2a_id: str) -> Seen:
        """Raises IllegalMove for a task that has ended."""
        seen = self.find(caller, agent, a2a_id)
        if seen.state in TERMINAL or not seen.current:
            raise IllegalMove("that task has ended")
        self._call(caller, verbs.Cancel(task=seen.task_id, note="cancelled over A2A"))
        return self.find(caller, agent, a2a_id)

    # -- for the runs --------------------------------------------------------------------------------

    def tell(self, claimed: Claimed, a2a_id: str, updates: list[Mapping[str, Any]]) -> bool:
        return self._board.tell(claimed.fence, a2a_id, updates) > 0

    def waiting(self) -> list[tuple[Agent, Seen]]:
        """What agents might begin now that run in the server, are open and have no worker. What a worker gave back
        when it stopped waits a while for the next one: begun by a server that is about to stop, it would be lost."""
        found: list[tuple[Agent, Seen]] = []
        places: Counter[str] = Counter()
        for seen in self._board.waiting():
            principal = self._desk.person(seen.agent_id)
            agent = None if principal is None else self._agent(principal.name)
            if principal is None or agent is None or not agent.direct or not agent.open.open:
                continue
            if agent.manned or agent.left:
                continue
            places[principal.name] += 1
            if places[principal.name] <= agent.card.concurrency:
                found.append((agent, seen))
        return found

    def take(self, agent: Agent, seen: Seen) -> Started:
        """The task is under a lease of the agent. Raises what a board's ``take`` raises."""
        claimed = self._desk.board.take(seen.task_id, agent.want, agent.stamp)
        return Started(seen=self.again(seen), claimed=claimed, created=False)

    def said(self, seen: Seen) -> Mapping[str, Any] | None:
        """The message that its next run answers; None: it was opened again by a person, whose words are its thread."""
        return next((told.body["message"] for told in reversed(seen.told) if told.kind == "message"), None)

    def reply(self, agent: Agent, claimed: Claimed, a2a_id: str, message: Mapping[str, Any]) -> bool:
        text = a2a_text.text_of(message)[: self._desk.rules.note // 4]
        return self._board.reply(claimed.fence, agent.stamp, a2a_id, message, text)

    def thread(self, agent: Agent, claimed: Claimed) -> tuple[Entry, ...]:
        """What was said on the task, for its next run; of a task's first run there is nothing yet."""
        if claimed.task.epoch <= 1:
            return ()
        thread: Any = self._call(agent.caller, verbs.Show(task=claimed.task.id))
        return tuple(thread.entries)

    def person(self, principal_id: int) -> Principal | None:
        """The account, while it is active."""
        return self._desk.person(principal_id)

    def persona(self, card: AgentCard) -> str:
        return self._desk.cards.persona(card)

    def now(self) -> datetime:
        return self._desk.board.now()

    def counted(self, card: AgentCard) -> bool:
        """Whether its runs are counted against a quota."""
        return bool(card.windows) or card.cost is not Cost.LOCAL


def _opening(agent: Agent, message: Mapping[str, Any], a2a_id: str, related: tuple[int, ...]) -> Opening:
    context = message.get("contextId") or str(uuid.uuid4())
    if len(context) > _LONGEST_ID:
        raise BadInput(f"a context's id has at most {_LONGEST_ID} characters", field="contextId")
    whole = {**message, "taskId": a2a_id, "contextId": context}
    return Opening(id=a2a_id, context=context, agent_id=agent.principal.id, message=whole, related=related)


def _named(agent: Agent, key: str | None) -> str | None:
    """The key among all that its owner submits, through whatever door."""
    return None if key is None else f"a2a/{agent.card.name}/{key}"


def is_patient(message: Mapping[str, Any]) -> bool:
    """Whether its sender would rather have it queued than refused."""
    return message.get("metadata", {}).get(_QUEUED) is True


def key_of(message: Mapping[str, Any]) -> str | None:
    key = message.get("metadata", {}).get(_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > _LONGEST_ID:
        raise BadInput(f"an idempotency key is a text of 1 to {_LONGEST_ID} characters", field=_KEY)
    return key


def _files(message: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The files in it, with plain names."""
    found: list[tuple[str, bytes]] = []
    for part in message["parts"]:
        if "raw" not in part:
            continue
        try:
            data = base64.b64decode(part["raw"])
        except (binascii.Error, ValueError):
            raise BadInput("a file's bytes are not base64", field="raw") from None
        name = "".join(c for c in str(part.get("filename", "")) if c.isprintable() and c not in "/\\")[:200].strip(". ")
        found.append((name or f"file-{len(found) + 1}", data))
    if len(found) > _FILES:
        raise BadInput(f"a message carries at most {_FILES} files", field="parts", limit=_FILES)
    return found


def _busy(agent: Agent, reason: str, until: datetime | None) -> Unavailable:
    soon = None if until is None else until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Unavailable(
        f"{agent.card.name} takes no work now: {reason}",
        next=f'come again later, or send it with metadata {{"{_QUEUED}": true}} to have it wait in its queue',
        until=soon,
        busy=True,
        sent=False,
    )
