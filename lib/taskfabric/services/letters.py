"""The server's postman: letters from the journal into the outbox, and from the outbox to people."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, Final

from taskfabric.domain.letter import Happening, Letter, NewLetter, reason_of, rest, subject
from taskfabric.domain.principal import Caller, Principal, Viewer
from taskfabric.domain.times import zone_of
from taskfabric.ports.board import Filter
from taskfabric.ports.notifier import Taken
from taskfabric.services import keeper_verbs
from taskfabric.services.desk import Desk
from taskfabric.services.notices import Notices
from taskfabric.services.upkeep import Upkeep

log = logging.getLogger(__name__)

_EVENTS: Final = 1000  # events of one look
_LOOKS: Final = 20  # looks of one round, while there is more
_LETTERS: Final = 20  # deliveries of one round


class Post:
    """Writing and delivering letters. Rounds of several servers do not disturb each other."""

    def __init__(self, desk: Desk, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep
        self._notices = Notices(desk, upkeep)

    def round(self) -> tuple[int, int, int]:
        """Letters written, delivered, and failed in this round. Raises Unavailable while the store is away."""
        written = 0
        for _ in range(_LOOKS):
            more = self._write()
            if more is None:
                break
            written += more
        sent = failed = 0
        for letter in self._upkeep.outbox.due(_LETTERS):
            if self._deliver(letter):
                sent += 1
            else:
                failed += 1
        if written or sent or failed:
            log.info("post written=%d sent=%d failed=%d", written, sent, failed)
        return written, sent, failed

    def shown(self, caller: Caller, verb: keeper_verbs.Letters) -> list[dict[str, Any]]:
        return [letter.to_json() for letter in self._upkeep.outbox.of(caller.principal.id, verb.limit)]

    def _write(self) -> int | None:
        """Letters written from the next events; None when there are none, or another server has them."""
        happened, before, after = self._upkeep.outbox.happenings(_EVENTS)
        if before == after:
            return None
        now = self._desk.board.now()
        letters = [letter for happening in happened for letter in self._letters(happening, now)]
        return len(letters) if self._upkeep.outbox.write(letters, before, after) else None

    def _letters(self, happening: Happening, now: datetime) -> list[NewLetter]:
        found: list[NewLetter] = []
        if happening.matter == "auth" and self._desk.approvals.of_task(happening.task_id) is not None:
            return []  # an approval writes its own letters
        for person_id, reason in reason_of(happening).items():
            person = self._desk.person(person_id)
            if person is None or not person.is_human:
                continue
            reach = self._upkeep.notifier.reach(person.name)
            # Nobody is told of a task that he may not see (G13); who has no address finds it in his digest.
            if not reach.addressed or not reach.ping or not self._sees(person, happening.task_id):
                continue
            quiet = self._notices.quiet(person)
            found.append(
                NewLetter(
                    to_id=person.id,
                    subject=subject(reason, happening.task_id, happening.title),
                    reason=reason,
                    event_id=happening.event_id,
                    task_id=happening.task_id,
                    due=now if quiet is None else quiet.over(now, zone_of(person.zone)),
                )
            )
        return found

    def _sees(self, person: Principal, task_id: int) -> bool:
        viewer = Viewer(principal_id=person.id, kind=person.kind)
        return any(t.id == task_id for t in self._desk.board.find(Filter(after_id=task_id - 1, limit=1), viewer))

    def _deliver(self, letter: Letter) -> bool:
        outbox = self._upkeep.outbox
        reach = self._upkeep.notifier.reach(letter.to)
        had = frozenset(letter.taken)
        taken = Taken(by=had, problem="there is no address for this person any more")
        if reach.addressed:
            taken = self._upkeep.notifier.send(reach, letter.subject, letter.body, letter=letter.id, had=had)
        if not taken.problem:
            outbox.sent(letter.id)
            return True
        attempt = letter.attempts + 1
        pause = rest(attempt)
        again = None if pause is None else self._desk.board.now() + pause
        outbox.failed(letter.id, taken.problem, again, sorted(taken.by))
        log.warning("letter not delivered letter=%d attempt=%d reason=%r", letter.id, attempt, taken.problem)
        return False
