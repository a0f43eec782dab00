"""The digest: one page of Markdown for one human, in his zone, of what waits for him."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from taskfabric.domain.status import Flag, Status
from taskfabric.domain.task import Task
from taskfabric.domain.times import abbreviation, ago, show

REFERENCE: Final = "fabric:digest"  # marks the card that keeps the digests
_MOST: Final = 30  # lines of one section; the rest is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and the tasks below it, hottest and oldest first."""

    title: str
    tasks: tuple[Task, ...]


def sections(person: int, inbox: int | None, tasks: Iterable[Task], now: datetime) -> list[Section]:
    """What of these tasks (all of them his to see) waits for this human, each task once, under its first heading."""
    titles = ("Questions for you", "Dead letters", "Overdue", "Held until somebody looks", "To verify", "Your inbox")
    found: dict[str, list[Task]] = {title: [] for title in titles}
    for task in {task.id: task for task in tasks}.values():
        title = _heading(person, inbox, task, now)
        if title is not None and task.reference != REFERENCE:
            found[title].append(task)
    return [Section(title=title, tasks=tuple(sorted(rows, key=_heat))) for title, rows in found.items() if rows]


def _heading(person: int, inbox: int | None, task: Task, now: datetime) -> str | None:
    mine = task.project_id == inbox
    match task.status:
        case Status.WAITING if Flag.NEEDS_INPUT in task.flags or Flag.NEEDS_AUTH in task.flags:
            return "Questions for you"
        case Status.DEAD:
            return "Dead letters" if task.is_open else None
        case Status.DONE:
            return "To verify" if task.producer_id != person else None
        case _ if task.due is not None and task.due < now and task.is_open:
            return "Overdue"
        case Status.HELD:
            return "Held until somebody looks"
        case Status.READY | Status.BACKLOG | Status.WORKING if mine:
            return "Your inbox"
        case _:
            return None


def _heat(task: Task) -> tuple[int, datetime, int]:
    return -task.priority, task.created, task.id


def page(name: str, zone: ZoneInfo, now: datetime, found: Sequence[Section]) -> str:
    """The digest as Markdown."""
    lines = [f"# {name}: {show(now, zone, now)} {abbreviation(now, zone)}", ""]
    if not found:
        lines += ["Nothing waits for you.", ""]
    for section in found:
        lines += [f"## {section.title} ({len(section.tasks)})", ""]
        lines += [_line(task, zone, now) for task in section.tasks[:_MOST]]
        if len(section.tasks) > _MOST:
            lines.append(f"- and {len(section.tasks) - _MOST} more")
        lines.append("")
    return "\n".join(lines)


def subject(found: Sequence[Section]) -> str:
    """One line, with numbers only."""
    return "digest: " + (", ".join(f"{len(s.tasks)} {s.title.lower()}" for s in found) or "nothing waits for you")


def _line(task: Task, zone: ZoneInfo, now: datetime) -> str:
    hot = "**urgent** " if task.priority == 3 else ""
    due = "" if task.due is None else f", due {show(task.due, zone, now)}"
    return f"- {hot}#{task.id} {_plain(task.title)} ({task.queue}, {ago(task.created, now)}{due})"


def _plain(title: str) -> str:
    """A title that cannot become a heading, a link or HTML of the page."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in title)
