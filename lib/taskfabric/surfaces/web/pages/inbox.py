"""What waits for the reader: oldest first, grouped by the run that it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from taskfabric.domain.comments import LineKind, parse
from taskfabric.domain.visible import visible
from taskfabric.services.inbox_verbs import Inbox
from taskfabric.services.verbs import ListUsers, Show
from taskfabric.surfaces.web.pages.page import Page
from taskfabric.surfaces.web.visit import Visit

Item = Mapping[str, Any]
_FIRST: Final = 40  # items on the first view, the oldest
_SHORT: Final = 100  # characters of a structure that is shown in one line


def inbox(visit: Visit) -> Page:
    """The reader's inbox; with ``?snoozed=1`` also what he has put off."""
    snoozed = visit.query.get("snoozed") == "1"
    found = visit.fabric.call(Inbox(snoozed=snoozed))
    every = found["items"]
    shown = every if visit.query.get("all") == "1" else every[:_FIRST]
    items = [_asked(visit, item) if item["kind"] == "question" else _with_preview(item) for item in shown]
    return Page(
        template="inbox.html",
        values={
            "title": "Inbox",
            "groups": [(root, list(of)) for root, of in groupby(items, key=lambda item: item["group"])],
            "count": len(every),
            "more": len(every) - len(items),
            "approvable": _several(items, _goes_with_others),
            "verifiable": _several(items, lambda item: "verify" in item["actions"]),
            "snoozable": _several(items, lambda item: "snooze" in item["actions"] and not _is_secure(item)),
            "away": found["away"],
            "snoozed": snoozed,
            "seen": fingerprint(found),
            "hidden": found["snoozed"],
            "humans": humans(visit),
        },
    )


def fingerprint(found: Mapping[str, Any]) -> str:
    """What this inbox holds, as a short word: a stream that begins with it tells of everything that came since."""
    names = [[i["kind"], i["ref"], i["until"], i["approval"] and i["approval"]["state"]] for i in found["items"]]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]


def humans(visit: Visit) -> list[str]:
    """The other people of the house, by name."""
    users = visit.fabric.call(ListUsers())
    me = visit.caller.principal.name
    return [user["name"] for user in users if user["kind"] == "human" and user["active"] and user["name"] != me]


def _several(items: Sequence[Item], fits: Callable[[Item], bool]) -> list[Item]:
    """Those that can be treated together, if there is more than one."""
    found = [item for item in items if fits(item)]
    return found if len(found) > 1 else []


def _is_secure(item: Item) -> bool:
    return item["approval"] is not None and bool(item["approval"]["level"] == "secure")


def _goes_with_others(item: Item) -> bool:
    return item["approval"] is not None and not _is_secure(item) and bool(item["approval"]["may_decide"])


def _asked(visit: Visit, item: Mapping[str, Any]) -> dict[str, Any]:
    """A question with its own words, and who asked it."""
    entries = visit.fabric.call(Show(task=item["task"]["id"])).entries
    question = next((entry for entry in reversed(entries) if entry.kind == LineKind.QUESTION), None)
    if question is None:
        return {**item, "preview": None}
    line = parse(question.text)
    words = question.text if line is None else line.text
    return {**item, "preview": None, "why": item["why"] or words, "who": question.author}


def _with_preview(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "preview": None if item["approval"] is None else preview(item["approval"])}


def preview(approval: Mapping[str, Any]) -> dict[str, Any]:
    """Exactly what is to be done: one line an argument, with what it was before somebody edited it."""
    before: Mapping[str, Any] = approval["args"]
    after: Mapping[str, Any] | None = approval["decided_args"]
    shown = before if after is None else after
    names: Iterable[str] = dict.fromkeys([*before, *shown])
    rows = [
        {
            "name": visible(name),
            "old": _text(before[name]) if name in before else None,
            "new": _text(shown[name]) if name in shown else None,
        }
        for name in names
    ]
    return {"rows": rows, "json": visible(json.dumps(before, indent=2, ensure_ascii=False, sort_keys=True))}


def _text(value: object) -> str:
    """The value as it is, with nothing that cannot be seen; a structure in one line if it is short."""
    if isinstance(value, str):
        return visible(value)
    short = json.dumps(value, ensure_ascii=False)
    return visible(short if len(short) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2))
