"""Notices: letters about what waits for a person, written at once and delivered by the postman."""

from __future__ import annotations

from collections.abc import Iterable

from taskfabric.domain.letter import NewLetter, Quiet
from taskfabric.domain.principal import Principal
from taskfabric.domain.times import zone_of
from taskfabric.services.desk import Desk
from taskfabric.services.upkeep import Upkeep


class Notices:
    """Writes letters into the outbox."""

    def __init__(self, desk: Desk, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep

    def quiet(self, person: Principal) -> Quiet | None:
        """His quiet hours: those that he set himself, else those of notify.toml."""
        own = self._desk.inbox.away.quiet(person.id)
        return own if own is not None else self._upkeep.notifier.habits(person.name).quiet

    def reachable(self, person: Principal) -> bool:
        """Whether a letter between the digests can reach him at all."""
        reach = self._upkeep.notifier.reach(person.name)
        return reach.addressed and reach.ping

    def write(
        self, people: Iterable[int], subject: str, body: str, reason: str, task_id: int | None, *, now: bool
    ) -> int:
        """A letter to each who has an address; not in quiet hours unless it is to come ``now``. How many there were."""
        at = self._desk.board.now()
        letters: list[NewLetter] = []
        for principal_id in dict.fromkeys(people):
            person = self._desk.person(principal_id)
            if person is None or not person.is_human or not self.reachable(person):
                continue
            quiet = None if now else self.quiet(person)
            letters.append(
                NewLetter(
                    to_id=person.id,
                    subject=subject[:200],
                    body=body,
                    reason=reason,
                    task_id=task_id,
                    due=at if quiet is None else quiet.over(at, zone_of(person.zone)),
                )
            )
        if letters:
            self._upkeep.outbox.write(letters)
        return len(letters)
