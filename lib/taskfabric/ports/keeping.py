"""What the keeper reads and writes of the board. Every write repeats the condition under which it was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Protocol

from taskfabric.domain.principal import Stamp
from taskfabric.domain.watch import Concern, Matter


class Keeping(Protocol):
    """Raises ``Unavailable`` while the store cannot be reached."""

    def turn(self, name: str, instance: str, length: timedelta) -> tuple[bool, timedelta | None]:
        """Whether ``instance`` has the turn of this name now (for ``length`` from now), and how long ago the last round
        of anybody was. Of several that ask at once one gets it."""

    def concerns(self, matter: Matter, limit: int) -> list[Concern]:
        """The tasks of this matter, those about which the least was told first, then the oldest."""

    def tell(self, concern: Concern, level: int, text: str, to: Sequence[int], stamp: Stamp) -> bool:
        """The thread has the text and the journal an event ``told`` that names ``to``, once for each occasion and
        level. False: the matter is over, or it was told before."""

    def mend(self, matter: Matter, task_id: int) -> bool:
        """What the end of a child or blocker should have done to this task is done. False: nothing was missing."""

    def reconcile(self, limit: int) -> dict[str, int]:
        """Cards and tasks are in line, as far as ``limit`` goes: what was done, by name. Empty where they are one."""

    def last_digests(self) -> dict[int, date]:
        """By human: the day of his last digest; where there was none, the day on which his account was made."""

    def digest(self, principal_id: int, day: date) -> bool:
        """True once for each human and day."""

    def figures(self) -> dict[str, dict[str, float]]:
        """Numbers about the whole house, by metric and label value; no name of anybody is among them."""
