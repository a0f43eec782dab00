"""One task in a worker's hands: quota reserved, refs resolved, the run watched, its end made ready to be told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from taskfabric import runtimes
from taskfabric.domain.card import AgentCard, CardKind, Cost
from taskfabric.domain.errors import FabricError, Unavailable
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import Failed, Outcome, Parked, Released
from taskfabric.domain.status import FINISHED
from taskfabric.domain.task import Claimed, Task, instant
from taskfabric.ports.fabric import Fabric
from taskfabric.ports.runtime import Job, Material, Result, Runtime
from taskfabric.remote.line import Line
from taskfabric.services import fleet_verbs, verbs
from workers import clock, refs
from workers.ending import fit
from workers.heartbeat import Heartbeat, Held
from workers.run import Finish, Run, Workspaces, parked_until
from workers.spool import Ended
from workers.telling import Chunk, Telling

log = logging.getLogger(__name__)

_BUDGET: Final = 200_000  # characters of materials, where the card names no budget of its own
_OUTPUT: Final = 1 << 20  # characters of output kept, where the card names no cap of its own
_URGENT: Final = 3  # this priority is interactive work, and may use what is reserved for it
_A_WHILE: Final = timedelta(minutes=1)
_SOON: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The card as the server has it now, with what belongs to it."""

    card: AgentCard
    persona: str
    hash: str


@dataclass(slots=True, kw_only=True)
class Kit:
    """What all errands of a worker share."""

    fabric: Fabric
    heartbeat: Heartbeat
    workspaces: Workspaces
    roots: tuple[Path, ...]
    url: str
    instance: str
    board: clock.BoardClock
    keep: Path | None = None  # what a runtime must find again after a restart
    idle: list[tuple[AgentCard, Runtime]] = field(default_factory=list)  # runtimes for the next run

    def take(self, card: AgentCard) -> Runtime:
        """A runtime for this card as it is now. Raises BadInput or Refused when there can be none."""
        while self.idle:
            made_for, runtime = self.idle.pop()
            if made_for == card:
                return runtime
            runtime.close()
        return runtimes.make(card, clock=self.board.now, keep=self.keep)

    def close(self) -> None:
        """Nothing of any runtime is left."""
        while self.idle:
            self.idle.pop()[1].close()


class Errand:
    """One claimed task of one agent. ``away`` is told until when the agent's account is to be left alone."""

    def __init__(
        self,
        agent: Agent,
        claimed: Claimed,
        held: Held,
        kit: Kit,
        *,
        probes: bool = False,
        away: Callable[[datetime, str], None] = lambda until, reason: None,
    ) -> None:
        self._agent = agent
        self._card = agent.card
        self._task, self._fence = claimed.task, claimed.fence
        self.held = held
        self._kit = kit
        self._away = away
        self._probes = probes
        self._counts = probes or bool(self._card.windows) or self._card.cost is not Cost.LOCAL
        self._run: Run | None = None
        self._drained = False

    def drain(self) -> None:
        """It ends now; what is not finished is given back."""
        self._drained = True
        if self._run is not None:
            self._run.drain()

    def carry_out(self) -> Ended | None:
        """How the run ended; None: the task is somebody else's by now. Raises Unavailable before the run has begun."""
        reservation: int | None = None
        if self._counts:
            got = self._reserve()
            if isinstance(got, Parked):
                return self._ended(got)
            reservation = got
        workspace = self._kit.workspaces.make(self._fence)
        try:
            finish = self._ran(workspace)
            result = finish.result
            self._account(reservation, result)
            if result is None:
                return None
            outcome = self._after_limit(result)
            return self._ended(outcome, result.attachments)
        finally:
            self._kit.workspaces.remove(workspace)

    def _ended(self, outcome: Outcome, attachments: Sequence[Path] = ()) -> Ended:
        fitting, files = fit(outcome, attachments)
        return Ended(fence=self._fence, outcome=fitting, files=files)

    # ---------------------------------------------------------------- the run

    def _ran(self, workspace: Path) -> Finish:
        kit, card = self._kit, self._card
        run: Run | None = None
        telling = Telling(self._tell, cap=_cap(card), wake=lambda: run.wake() if run else None)
        job = self._job(workspace)
        runtime = kit.take(card)
        run = self._run = Run(
            job, runtime, held=self.held, heartbeat=kit.heartbeat, telling=telling, board_now=kit.board.now
        )
        if self._drained:
            run.drain()
        finish = run.carry_out()
        if finish.whole:
            kit.idle.append((card, runtime))
        return finish

    def _tell(self, chunks: Sequence[Chunk]) -> None:
        self._kit.fabric.call(fleet_verbs.Chunks(fence=verbs.FenceArg.of(self._fence), chunks=tuple(chunks)))

    def _job(self, workspace: Path) -> Job:
        card, fabric = self._card, self._kit.fabric
        thread = fabric.call(verbs.Show(task=self._task.id))
        return Job(
            task=self._task,
            fence=self._fence,
            card=card,
            thread=thread.entries,
            materials=self._materials(),
            persona=self._agent.persona,
            workspace=workspace,
            url=self._kit.url,
            run_token=self._run_token() if card.kind is CardKind.COMMAND else "",
            submit=self._submit if "submit" in card.tools else None,
            deadline=datetime.now(UTC) + card.max_runtime,
        )

    def _materials(self) -> tuple[Material, ...]:
        fabric, task, card = self._kit.fabric, self._task, self._card
        budget = card.model.context_chars if card.model else _BUDGET
        fetch: Callable[[str, int], str] | None = None
        if "web" in card.tools:
            from workers import web  # only who is granted it pays for it

            fetch = web.fetch
        reach = refs.Reach(roots=self._kit.roots, show=lambda number: fabric.call(verbs.Show(task=number)), fetch=fetch)
        children: list[Task] = []
        if task.children:
            children = fabric.call(verbs.List(parent=task.id, statuses=tuple(FINISHED), limit=100))
        found = [*refs.of_children(children), *refs.resolve(task.refs, reach, budget=budget)]
        return refs.within(budget, found)

    def _run_token(self) -> str:
        """What acts as this run, and only as this run, until it ends."""
        made = self._kit.fabric.call(verbs.RunToken(fence=verbs.FenceArg.of(self._fence)))
        return str(made["token"])

    def _submit(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """A child of our task: who made it is known from the run's credential, whatever the fields say."""
        with Line(self._kit.url, self._run_token()) as line:
            child: dict[str, Any] = line.ask("fabric.submit", fields)
        return child

    # ---------------------------------------------------------------- quota

    def _reserve(self) -> int | Parked:
        """The number of the reservation, or how the run ends for want of quota."""
        answer = self._kit.fabric.call(
            fleet_verbs.Reserve(
                interactive=self._task.priority >= _URGENT,
                fence=verbs.FenceArg.of(self._fence),
                instance=self._kit.instance,
            )
        )
        if answer["granted"]:
            return int(answer["reservation"])
        now = self._kit.board.now()
        until = instant(answer["until"]) or now + _A_WHILE
        reason = str(answer["reason"]) or "its quota is spent"
        # The server knows better how long: it is asked again soon, and then says so by a(t).
        self._away(min(until, now + _SOON), reason)
        return Parked(until=now if self._is_pooled else until, reason=reason, head=self._is_pooled)

    @property
    def _is_pooled(self) -> bool:
        """Whether others may take the task as well."""
        return self._task.queue != self._card.name

    def _account(self, reservation: int | None, result: Result | None) -> None:
        """What the run cost is in the ledger. A ledger that cannot be reached goes by what was reserved."""
        if reservation is None:
            return
        limit = None if result is None else result.limit
        usage = {name: max(0, value) for name, value in (result.usage if result else {}).items()}
        answered = limit is None or limit.cls in (LimitClass.OK, LimitClass.WARNING)
        ok = answered and result is not None and not isinstance(result.outcome, Failed | Released)
        try:
            learned = () if limit is None else tuple(fleet_verbs.LearnedArg.of(one) for one in limit.learned)
            self._kit.fabric.call(
                fleet_verbs.Spent(
                    reservation=reservation, usage=usage, ok=ok, probe=ok and self._probes, learned=learned
                )
            )
        except FabricError as error:
            log.warning("cost not told task=%s reason=%s", self._fence, error.message)

    def _after_limit(self, result: Result) -> Outcome:
        """The limit is told, once; what the run met parks until the account is open again."""
        limit = result.limit
        if limit is None or limit.cls is LimitClass.OK:
            return result.outcome
        until, closed = self._told(limit)
        if until is None or limit.cls is LimitClass.WARNING:
            return result.outcome
        # An account that the server has closed it opens as well, perhaps before: only else is it for us to remember.
        self._away(self._kit.board.now() if closed else until, limit.evidence or limit.cls.value)
        return parked_until(result.outcome, until)

    def _told(self, limit: Limit) -> tuple[datetime | None, bool]:
        """Until when to keep away, and whether the server sees to that. While it is away itself, we judge alone."""
        shown = replace(limit, evidence=limit.evidence[:200])
        try:
            answer = self._kit.fabric.call(
                fleet_verbs.Limited(
                    limit=fleet_verbs.LimitArg.of(shown),
                    fence=verbs.FenceArg.of(self._fence),
                    instance=self._kit.instance,
                )
            )
        except Unavailable:
            if limit.cls in (LimitClass.WARNING, LimitClass.UNKNOWN):
                return None, False
            return limit.reopens or self._kit.board.now() + _A_WHILE, False
        return instant(answer["until"]), bool(answer["closed"])


def _cap(card: AgentCard) -> int:
    return card.command.output_cap if card.command else _OUTPUT
