"""The hallway: the one place through which every call goes, whatever surface it came from.

Who is it (the caller, from its credential), may it (policy and invariants), does it need a human, one board verb, the
answer. A policy that is not asked from here does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from taskfabric.domain.errors import FabricError, NotAuthenticated, Refused, Unavailable
from taskfabric.domain.principal import Caller, Kind, Via
from taskfabric.ports.a2a import A2ABoard
from taskfabric.ports.board import Board, Swept
from taskfabric.ports.credentials import Credentials
from taskfabric.ports.fabric import Fabric, R, Verb
from taskfabric.ports.files import Files
from taskfabric.ports.journal import Journal
from taskfabric.ports.moving import Moving
from taskfabric.ports.overview import Overview
from taskfabric.ports.projects import Projects
from taskfabric.ports.signal import Signal
from taskfabric.services import fleet_verbs, keeper_verbs, moving_verbs, policy, verbs
from taskfabric.services.a2a import A2A
from taskfabric.services.card_annex import CardAnnex
from taskfabric.services.cards import Cards
from taskfabric.services.cron import Cron
from taskfabric.services.decisions import Decisions
from taskfabric.services.desk import Desk, FleetPorts, InboxPorts, KanboardPorts, Rules
from taskfabric.services.doctor import Doctor
from taskfabric.services.drain import Draining
from taskfabric.services.fleet import Fleet
from taskfabric.services.fleet_roster import FleetRoster
from taskfabric.services.following import Following
from taskfabric.services.furnishing import Furnishing
from taskfabric.services.household import Household
from taskfabric.services.kanboard_rights import Rights
from taskfabric.services.keeping import Keeping
from taskfabric.services.letters import Post
from taskfabric.services.manning import Manning
from taskfabric.services.moving import Removal
from taskfabric.services.overview import Overlooking
from taskfabric.services.people import Deciding
from taskfabric.services.projects import Arranging
from taskfabric.services.reading import Reading
from taskfabric.services.roster import Roster
from taskfabric.services.submit import Submitting
from taskfabric.services.tokens import Tokens
from taskfabric.services.upkeep import KEEPER, Upkeep
from taskfabric.services.waiting import Waiting

log = logging.getLogger(__name__)

V = TypeVar("V", bound=Verb[Any])
T = TypeVar("T")
_PREFIX: Final = "fabric."


class Hallway:
    """All verbs of the fabric, for every caller."""

    def __init__(
        self,
        *,
        board: Board,
        projects: Projects,
        credentials: Credentials,
        journal: Journal,
        files: Files,
        signal: Signal,
        upkeep: Upkeep,
        moving: Moving,
        fleet: FleetPorts,
        kanboard: KanboardPorts,
        inbox: InboxPorts,
        overview: Overview,
        rules: Rules,
        version: str,
    ) -> None:
        self._desk = Desk(
            board=board,
            projects=projects,
            credentials=credentials,
            journal=journal,
            files=files,
            signal=signal,
            fleet=fleet,
            kanboard=kanboard,
            inbox=inbox,
            rules=rules,
            version=version,
        )
        self._kept: Final = upkeep
        draining = Draining(self._desk)
        self._decisions: Final = Decisions(self._desk, upkeep)
        self.sessions: Final = self._decisions.sessions
        self.rules: Final = rules
        self.waiting: Final = Waiting(self._desk, draining)
        self.arranging: Final = Arranging(self._desk)
        self.rights: Final = Rights(self._desk)
        self.furnishing: Final = Furnishing(self._desk, self.arranging)
        self.cards: Final = Cards(self._desk, Submitting(self._desk))
        self.annex: Final = CardAnnex(self._desk, self._decisions.verdicts.comment)
        self.following: Final = Following(self._desk)
        self.household: Final = Household(self._desk, Roster(self._desk, self._decisions.let_go))
        self._answers: dict[type[Verb[Any]], Callable[[Caller, Any], Any]] = {}
        self._answers.update(self._decisions.answers())
        self._taking(draining)
        self._making_and_reading()
        self._people()
        self.manning: Final = Manning(self._desk)
        self._fleet(draining)
        self.post: Final = Post(self._desk, upkeep)
        self._upkeep(upkeep)
        removal = Removal(self._desk, moving)
        self._on(moving_verbs.Import, removal.bring)
        self._on(moving_verbs.Export, removal.take_out)
        self._on(moving_verbs.Adopt, removal.adopt)
        overlooking = Overlooking(self._desk, overview, Reading(self._desk, self._decisions.humans))
        self._on(verbs.ShowBoard, overlooking.board)
        self._on(verbs.PlainProjects, overlooking.projects)
        self._on(verbs.Standing, overlooking.standing)
        self._on(verbs.Depths, overlooking.depths)
        self._on(verbs.ListLater, overlooking.later)
        self._on(verbs.RecentEvents, overlooking.recent)
        missing = [kind.__name__ for kind in verbs.BY_METHOD.values() if kind not in self._answers]
        if missing:
            raise FabricError(f"no one answers {', '.join(missing)}")

    def over_a2a(self, board: A2ABoard) -> A2A:
        """The room for callers over A2A; ``board`` is their view of the board."""
        return A2A(self._desk, board, self.manning, self.call)

    @property
    def answered(self) -> frozenset[type[Verb[Any]]]:
        """The verbs that this hallway answers."""
        return frozenset(self._answers)

    def _taking(self, draining: Draining) -> None:
        on = self._on
        on(verbs.Claim, draining.claim)
        on(verbs.Take, draining.take)
        on(verbs.Renew, draining.renew)
        on(verbs.Done, draining.done)
        on(verbs.DoneMany, draining.done_many)
        on(verbs.Park, draining.park)
        on(verbs.Ask, draining.ask)
        on(verbs.WaitForChildren, draining.wait_for_children)
        on(verbs.Fail, draining.fail)
        on(verbs.Release, draining.release)
        on(verbs.Decline, draining.decline)
        on(verbs.Wait, self.waiting.wait)
        on(verbs.Sweep, self._sweep)

    def _making_and_reading(self) -> None:
        on, submitting, reading = self._on, Submitting(self._desk), Reading(self._desk, self._decisions.humans)
        on(verbs.Submit, submitting.one)
        on(verbs.SubmitMany, submitting.many)
        on(verbs.Hello, reading.hello)
        on(verbs.Show, reading.show)
        on(verbs.ShowAnnex, reading.annex)
        on(verbs.List, reading.find)
        on(verbs.Events, reading.events)
        on(verbs.Tree, reading.tree)
        on(verbs.Why, reading.why)
        on(verbs.Download, reading.download)

    def _people(self) -> None:
        on, roster, tokens = self._on, Roster(self._desk, self._decisions.let_go), Tokens(self._desk)
        deciding = Deciding(self._desk, self._decisions.verdicts.comment, self._decisions.take_back)
        on(verbs.Answer, deciding.answer)
        on(verbs.Verify, deciding.verify)
        on(verbs.VerifyMany, deciding.verify_many)
        on(verbs.Reject, deciding.reject)
        on(verbs.Cancel, deciding.cancel)
        on(verbs.Redrive, deciding.redrive)
        on(verbs.EditTask, deciding.edit)
        on(verbs.Move, deciding.move)
        on(verbs.Comment, deciding.comment)
        on(verbs.Attach, deciding.attach)
        on(verbs.CreateQueue, self.arranging.create_queue)
        on(verbs.ListQueues, self.arranging.list_queues)
        on(verbs.SetMember, self.arranging.set_member)
        on(verbs.SetLimit, self.arranging.set_limit)
        on(verbs.AddUser, roster.add_user)
        on(verbs.ListUsers, roster.list_users)
        on(verbs.DisableUser, roster.disable_user)
        on(verbs.ResetUser, roster.reset_user)
        on(verbs.SetPin, roster.set_pin)
        on(verbs.CreateToken, tokens.create)
        on(verbs.RevokeToken, tokens.revoke)
        on(verbs.ListTokens, tokens.shown)
        on(verbs.RunToken, tokens.run)

    def _fleet(self, draining: Draining) -> None:
        on, fleet, roster = self._on, Fleet(self._desk, draining, self.manning), FleetRoster(self._desk, self.manning)
        on(fleet_verbs.Card, fleet.card)
        on(fleet_verbs.Report, fleet.report)
        on(fleet_verbs.Limited, fleet.limited)
        on(fleet_verbs.Reserve, fleet.reserve)
        on(fleet_verbs.Spent, fleet.spent)
        on(fleet_verbs.Chunks, fleet.chunks)
        on(fleet_verbs.ReadChunks, fleet.read_chunks)
        on(fleet_verbs.Agents, roster.agents)
        on(fleet_verbs.CheckCards, roster.check)
        on(fleet_verbs.Pause, roster.pause)
        on(fleet_verbs.Resume, roster.resume)
        on(verbs.Doctor, Doctor(self._desk, roster, self._kept).checks)

    def _upkeep(self, upkeep: Upkeep) -> None:
        on, keeping = self._on, Keeping(self._desk, upkeep)
        cron = Cron(self._desk, upkeep, Submitting(self._desk))
        on(keeper_verbs.Turn, keeping.turn)
        on(keeper_verbs.Watch, keeping.watch)
        on(keeper_verbs.Tell, keeping.tell)
        on(keeper_verbs.Mend, keeping.mend)
        on(keeper_verbs.Reconcile, keeping.reconcile)
        on(keeper_verbs.Readers, keeping.readers)
        on(keeper_verbs.Digest, keeping.digest)
        on(keeper_verbs.Metrics, keeping.metrics)
        on(keeper_verbs.Tick, cron.tick)
        on(keeper_verbs.ListSlots, cron.shown)
        on(keeper_verbs.Letters, self.post.shown)

    def _on(self, kind: type[V], answer: Callable[[Caller, V], Any]) -> None:
        self._answers[kind] = answer

    # -- the calls -----------------------------------------------------------------------------------

    def call(self, caller: Caller, verb: Verb[R]) -> R:
        """The verb's result for this caller. Raises the errors of ``domain.errors``; a refusal is in the journal."""
        if not caller.principal.active:
            raise NotAuthenticated("this account is disabled")
        try:
            result: R = self._answers[type(verb)](caller, verb)
        except NotAuthenticated:
            raise
        except Refused as error:
            self.refused(caller, verb.method.removeprefix(_PREFIX), error)
            raise
        return result

    def noted(self, caller: Caller, what: str, act: Callable[[], T]) -> T:
        """What ``act`` returns; a refusal is in the journal, as that of a verb called ``what``."""
        if not caller.principal.active:
            raise NotAuthenticated("this account is disabled")
        try:
            return act()
        except NotAuthenticated:
            raise
        except Refused as error:
            self.refused(caller, what, error)
            raise

    def for_caller(self, caller: Caller) -> Fabric:
        """One caller's access, as ``remote.py`` gives it to callers elsewhere."""
        return _Access(self, caller)

    def refused(self, caller: Caller, what: str, error: Refused) -> None:
        """A rule said no to this caller: it is in the journal."""
        facts: Mapping[str, object] = {"rule": error.facts.get("rule"), "message": error.message}
        task = error.facts.get("task")
        named = task if isinstance(task, int) else None
        try:
            self._desk.board.refusal(what, named, caller.stamp(), dict(facts))
        except Unavailable as lost:  # the refusal stands, whether it could be written down or not
            log.warning("refusal not journaled verb=%s reason=%s", what, lost.message)

    def _sweep(self, caller: Caller, verb: verbs.Sweep) -> Swept:
        me = caller.principal
        service = me.kind is Kind.SERVICE and (caller.via is Via.SYSTEM or me.name == KEEPER)
        if not service or caller.run is not None:
            policy.need_admin(caller, "sweeping")
        return self._desk.board.sweep(
            verb.limit, caller.stamp(), None if caller.queues is None else sorted(caller.queues)
        )


class _Access:
    """``ports.fabric.Fabric`` for one caller in this process."""

    def __init__(self, hallway: Hallway, caller: Caller) -> None:
        self._hallway = hallway
        self._caller = caller

    def call(self, verb: Verb[R]) -> R:
        return self._hallway.call(self._caller, verb)


__all__ = ["Hallway", "Rules"]
