"""The doctor: is everything well, and what could be better?"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from taskfabric.domain.errors import BadInput
from taskfabric.domain.principal import Caller, Viewer
from taskfabric.domain.status import Status
from taskfabric.ports.board import Filter
from taskfabric.services import schedules
from taskfabric.services.desk import Desk
from taskfabric.services.fleet_roster import FleetRoster
from taskfabric.services.levels import Levels
from taskfabric.services.upkeep import Upkeep
from taskfabric.services.verbs import Check
from taskfabric.services.verbs import Doctor as DoctorVerb

_SILENT: Final = 600.0  # seconds after the last round of the keeper
_SKEW: Final = 5.0  # seconds between the board's clock and this machine's
_CODE: Final = re.compile(r"^import[ \t]", re.MULTILINE)  # such a line of a .pth file is run at every start
# Files that the tools which make an environment put there themselves.
_USUAL: Final = re.compile(r"(distutils-precedence|_virtualenv|__editable__[\w.-]*|a1_coverage)\.pth")


class Doctor:
    """The checks of one look; each says what was seen, and what to do if that is not well."""

    def __init__(self, desk: Desk, fleet: FleetRoster, upkeep: Upkeep) -> None:
        self._desk = desk
        self._upkeep = upkeep
        self._fleet = fleet

    def checks(self, caller: Caller, verb: DoctorVerb) -> list[Check]:
        found = [*self._board(), *self._tasks(caller)]
        if caller.principal.is_human and caller.principal.is_admin:
            found += [*self._queues(), *self._fleet.doctor(), *self._services(), *self._pins(), *_code_at_start()]
            found += self._policy()
        return found

    def _policy(self) -> Iterator[Check]:
        """Whether the file that says what needs a human's decision is in force as it stands."""
        found = Levels(self._desk).seen()
        if found.problem:
            hint = "mend it; until then what was accepted before holds"
            yield Check(name="policy", state="warn", text=found.problem, next=hint)
        elif not found.is_accepted:
            text = f"{found.source} was changed; where it asks for less than before it does not hold yet"
            yield Check(name="policy", state="warn", text=text, next="`fabric policy accept`, if you changed it")

    def _services(self) -> Iterator[Check]:
        """The schedules and the notifications, as far as their files say; and whether the keeper makes its rounds."""
        problem = self._upkeep.notifier.problem()
        if problem:
            yield Check(name="notify", state="warn", text=problem, next="the last good settings stay in force")
        try:
            content, source = self._upkeep.schedules()
            wrong = [one for one in schedules.read(content, source).values() if isinstance(one, BadInput)]
        except BadInput as unreadable:
            wrong = [unreadable]
        for one in wrong:
            yield Check(name="schedules", state="warn", text=one.message, next=one.next)
        well, said, better = self._desk.fleet.router.state()
        yield Check(name="router", state="ok" if well else "warn", text=said, next=better)
        ago = self._upkeep.keeping.figures()["last_round_seconds"].get("keeper")
        if ago is None or ago > _SILENT:
            said = "has made no round yet" if ago is None else f"made its last round {ago:.0f} s ago"
            yield Check(
                name="keeper",
                state="warn",
                text=f"the keeper {said}; work flows without it, reminders and digests do not",
                next="`fabric up` runs one, and `fabric logs keeper` has its words",
            )
        else:
            yield Check(name="keeper", state="ok", text="the keeper makes its rounds")

    def _board(self) -> Iterator[Check]:
        hi = self._desk.board.hello()
        facts = ", ".join(f"{name} {value}" for name, value in hi.facts.items() if value is not None)
        yield Check(name="board", state="ok", text=f"{hi.kind} board answers" + (f" ({facts})" if facts else ""))
        if hi.kind == "kanboard":
            yield from _stock(hi.facts)
        skew = abs((hi.now - datetime.now(UTC)).total_seconds())
        if skew > _SKEW:
            yield Check(
                name="clock",
                state="warn",
                text=f"the board's clock and this machine's differ by {skew:.0f} s",
                next="let both keep time by NTP; leases are judged by the board's clock alone",
            )
        else:
            yield Check(name="clock", state="ok", text="the board's clock and this machine's agree")
        if "pgvector" in hi.facts and hi.facts["pgvector"] is None:
            yield Check(
                name="pgvector",
                state="warn",
                text="the database has no pgvector extension",
                next="install it on the database server, or use the embedded one",
            )

    def _tasks(self, caller: Caller) -> Iterator[Check]:
        viewer = Viewer.of(caller)
        counts = self._desk.board.count(viewer)
        dead = sum(by_status.get(Status.DEAD, 0) for by_status in counts.values())
        held = sum(by_status.get(Status.HELD, 0) for by_status in counts.values())
        overdue = len(self._desk.board.find(Filter(overdue=True, limit=100), viewer))
        yield _count("dead-letters", dead, "dead letter(s)", "`fabric list --status dead`, then redrive or cancel them")
        yield _count("held", held, "task(s) held for a human", "`fabric list --status held`, and `fabric why REF`")
        yield _count("overdue", overdue, "overdue task(s)", "`fabric list` shows what is due")

    def _queues(self) -> Iterator[Check]:
        queues = self._desk.projects.queues()
        broken = [q for q in queues if q.unmapped]
        for queue in broken:
            yield Check(
                name="queue",
                state="fail",
                text=f"{queue.name!r} has no column for {', '.join(queue.unmapped)}",
                next="add columns titled Backlog, Ready, Work in progress, Done",
            )
        if not broken:
            yield Check(name="queues", state="ok", text=f"{len(queues)} queue(s), all mapped to their columns")
        if self._desk.projects.queue(self._desk.rules.default_pool) is None:
            yield Check(
                name="pool",
                state="fail",
                text=f"there is no default pool {self._desk.rules.default_pool!r}",
                next="restart the fabric, which makes it",
            )

    def _pins(self) -> Iterator[Check]:
        credentials = self._desk.credentials
        admins = [p for p in credentials.principals() if p.is_human and p.is_admin and p.active]
        without = [p.name for p in admins if not credentials.has_pin(p.id)]
        if without:
            yield Check(
                name="pin",
                state="warn",
                text=f"no PIN is set for {', '.join(without)}: nobody can decide from the command line, and whatever"
                " reads the local credential can add people",
                next="set one with `fabric pin set`",
            )
        else:
            yield Check(name="pin", state="ok", text="every administrator has a PIN")
        last = credentials.pins_set()
        for who in (p for p in admins if p.name not in without and p.id in last):
            pin = last[who.id]
            how, at = "first set" if pin.first else "changed", f"{pin.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            yield Check(
                name="pin-set",
                state="ok",
                text=f"the PIN of {who.name} was {how} by {pin.by} ({pin.via.value}) at {at}",
            )


# What a stock Kanboard cannot promise, as the table of guarantees in DESIGN.md has it.
_STOCK: Final = (
    ("G3", "no close by the loser of an epoch; a person or a script can still edit anything there"),
    ("G5", "as durable as the Kanboard's own database"),
    ("G11", "a key holds by a tag of the locks project: leave that project alone"),
    (
        "G13",
        "privacy, 'the producer never closes' and provenance hold at the fabric's own surfaces only: one Kanboard,"
        " one household, one trust domain",
    ),
)


def _stock(facts: Mapping[str, str | int | bool | None]) -> Iterator[Check]:
    """The board is a stock Kanboard: what that means, and whether its cards are in line."""
    for promise, text in _STOCK:
        yield Check(name="stock-kanboard", state="ok", text=f"{promise}: {text}")
    behind, off = facts.get("left_behind"), facts.get("clock_off")
    if behind:
        yield Check(
            name="cards",
            state="warn",
            text=f"{behind} card(s) are not in line with their tasks yet",
            next="the keeper's chore 'reconcile' does it; `fabric keeper --once` does it now",
        )
    if isinstance(off, int) and abs(off) > _SKEW:
        yield Check(
            name="kanboard-clock",
            state="warn",
            text=f"the Kanboard's clock and this machine's differ by {abs(off)} s",
            next="let both keep time by NTP",
        )


def _count(name: str, number: int, what: str, next: str) -> Check:
    if number:
        return Check(name=name, state="warn", text=f"{number} {what}", next=next)
    return Check(name=name, state="ok", text=f"no {what.replace('(s)', 's')}")


def _code_at_start() -> Iterator[Check]:
    """A .pth file in site-packages with an import line runs code whenever Python starts, also after an uninstall."""
    strange = sorted(
        file.name
        for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        for file in Path(folder).glob("*.pth")
        if not _USUAL.fullmatch(file.name) and _runs_code(file)
    )
    if strange:
        yield Check(
            name="pth",
            state="warn",
            text=f"files that run code at every start of Python: {', '.join(strange)}",
            next="find out which package they came from; remove what nobody knows",
        )
    else:
        yield Check(name="pth", state="ok", text="no package runs code at the start of Python")


def _runs_code(file: Path) -> bool:
    try:
        return _CODE.search(file.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:  # what cannot be read here may still be read by another user's Python
        return True
