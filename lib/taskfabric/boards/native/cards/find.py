"""Kanboard's search, as SQL: each field one condition, several values of a field joined by OR."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any, Final

from taskfabric.boards.native.cards.faces import MOVED, PRIORITY, SEEN_HERE, through
from taskfabric.boards.native.cards.listing import whole
from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.read import READABLE
from taskfabric.domain.card_query import CardQuery, day_span, operator_of, range_span
from taskfabric.domain.principal import Viewer
from taskfabric.domain.status import FLAG_OF_TAG
from taskfabric.ports.faces import Row

_NONE: Final = "false"  # nothing is like that
_INT4: Final = 2**31 - 1


class _Search:
    """The conditions of one search, and the values that they name."""

    def __init__(self, me: int, now: datetime, zone: tzinfo) -> None:
        self.values: dict[str, Any] = {}
        self._me = me
        self._now = now
        self._zone = zone

    def put(self, value: object) -> str:
        """The placeholder of a value."""
        name = f"q{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"

    def like(self, column: str, value: str) -> str:
        """The text is somewhere in it, in whatever case."""
        return f"{column} ILIKE {self.put('%' + _escaped(value) + '%')}"

    def number(self, column: str, value: str) -> str:
        """The column is this number."""
        return f"{column} = {self.put(int(value))}" if _is_number(value) else _NONE

    # -- fields --------------------------------------------------------------------------------------

    def status(self, value: str) -> str:
        match value.lower():
            case "open" | "1":
                return "t.is_active"
            case "closed" | "0":
                return "NOT t.is_active"
            case _ if _is_number(value):
                return _NONE
            case _:
                return "true"

    def person(self, column: str, table: str, value: str) -> str:
        match value:
            case "me":
                return f"coalesce({column}, 0) = {self.put(self._me)}"
            case "nobody":
                return f"coalesce({column}, 0) = 0"
            case "anybody":
                return f"coalesce({column}, 0) > 0"
            case _ if value == "0":
                return f"coalesce({column}, 0) = 0"
            case _ if _is_number(value):
                return self.number(column, value)
            case _:
                return f"({self.like(f'{table}.username', value)} OR {self.like(f'{table}.name', value)})"

    def title(self, value: str) -> str:
        words = self.like("t.title", value)
        id_ = value.removeprefix("#")
        return (
            f"(t.id = {self.put(int(id_))} OR {words})" if id_.isascii() and id_.isdigit() and len(id_) < 19 else words
        )

    def task_id(self, value: str) -> str:
        digits = value.removeprefix("#")
        return (
            f"t.id = {self.put(int(digits))}" if digits.isascii() and digits.isdigit() and len(digits) < 19 else _NONE
        )

    def column(self, value: str) -> str:
        return self.number("t.column_id", value) if _is_number(value) else f"c.title = {self.put(value)}"

    def swimlane(self, value: str) -> str:
        return f"w.name ILIKE {self.put(_escaped(value))}"

    def category(self, value: str) -> str:
        if value == "none":
            return "coalesce(f.category_id, 0) = 0"
        named = f"k.name = {self.put(value)}"
        return f"({self.number('f.category_id', value)} OR {named})" if _is_number(value) else named

    def tag(self, value: str) -> str:
        reserved = self._reserved(value)
        if value == "none":
            return f"NOT (EXISTS (SELECT FROM task_has_tags h WHERE h.task_id = t.id) OR {reserved})"
        found = (
            "EXISTS (SELECT FROM task_has_tags h JOIN tags g ON g.id = h.tag_id"
            f" WHERE h.task_id = t.id AND {self.like('g.name', value)})"
        )
        return f"({found} OR {reserved})"

    def _reserved(self, value: str) -> str:
        """The tags that a rule uses are bits of the row and words of its lane."""
        if value == "none":
            return "t.flags <> 0 OR l.tier <> '' OR l.needs <> '{}' OR l.trust > 0"
        tier, needs = self.like("'tier:' || l.tier", value), self.like("'needs:' || n", value)
        bits = sum(int(flag) for tag, flag in FLAG_OF_TAG.items() if value.lower() in tag)
        trusts = [
            n
            for n, word in enumerate(("untrusted", "sandboxed", "trusted", "human"))
            if value.lower() in f"trust:{word}"
        ]
        return " OR ".join(
            [
                f"t.flags & {self.put(bits)}::int <> 0",
                f"l.tier <> '' AND {tier}",
                f"EXISTS (SELECT FROM unnest(l.needs) AS n WHERE {needs})",
                f"l.trust > 0 AND l.trust = ANY ({self.put(trusts)}::smallint[])",
            ]
        )

    def compared(self, column: str, value: str) -> str:
        operator, digits = operator_of(value)
        if not _is_number(digits):
            return _NONE
        return f"{column} {operator} {self.put(int(digits))}"

    def reference(self, value: str) -> str:
        if value == "none":
            return "t.reference = ''"
        return f"t.reference ILIKE {self.put(_escaped(value).replace('*', '%'))}"

    def description(self, value: str) -> str:
        words = self.like("x.description", value)
        return f"t.has_text AND EXISTS (SELECT FROM task_texts x WHERE x.task_id = t.id AND {words})"

    def comment(self, value: str) -> str:
        return f"EXISTS (SELECT FROM comments m WHERE m.task_id = t.id AND {READABLE} AND {self.like('m.text', value)})"

    def link(self, value: str) -> str:
        return (
            "EXISTS (SELECT FROM task_has_links x JOIN links y ON y.id = x.link_id"
            f" WHERE x.task_id = t.id AND y.label ILIKE {self.put(_escaped(value))})"
        )

    def subtask(self, value: str) -> str:
        who = self.person("b.user_id", "ub", value)
        return (
            "EXISTS (SELECT FROM subtasks b LEFT JOIN users ub ON ub.id = b.user_id"
            f" WHERE b.task_id = t.id AND b.status <> 2 AND {who})"
        )

    def day(self, column: str, value: str) -> str:
        if value.lower() == "none":
            return f"{column} IS NULL"
        span = day_span(value, self._now, self._zone)
        if span is None:
            return _NONE
        begin, end = span
        parts = [f"{column} IS NOT NULL"]
        if begin is not None:
            parts.append(f"{column} >= {self.put(begin)}")
        if end is not None:
            parts.append(f"{column} < {self.put(end)}")
        return " AND ".join(parts)

    def days(self, column: str, value: str) -> str:
        span = range_span(value, self._zone)
        return _NONE if span is None else f"{column} >= {self.put(span[0])} AND {column} < {self.put(span[1])}"

    def color(self, value: str) -> str:
        return f"lower(coalesce(f.color_id, 'yellow')) = {self.put(value.lower().replace(' ', '_'))}"


_DATES: Final = {
    "due": "t.date_due",
    "created": "t.date_creation",
    "modified": "t.date_modification",
    "moved": MOVED,
    "started": "t.date_started",
    "completed": "t.date_completed",
}
_Condition = Callable[[_Search, str], str]


def _on(column: str) -> _Condition:
    return lambda search, value: search.day(column, value)


def _between(column: str) -> _Condition:
    return lambda search, value: search.days(column, value)


_FIELDS: Final[Mapping[str, _Condition]] = {
    "status": _Search.status,
    "assignee": lambda s, v: s.person("t.owner_id", "u", v),
    "creator": lambda s, v: s.person("t.creator_id", "uc", v),
    "column": _Search.column,
    "swimlane": _Search.swimlane,
    "category": _Search.category,
    "tag": _Search.tag,
    "priority": lambda s, v: s.compared(f"({PRIORITY})", v),
    "score": lambda s, v: s.compared("coalesce(t.score, 0)", v),
    "color": _Search.color,
    "reference": _Search.reference,
    "id": _Search.task_id,
    "title": _Search.title,
    "description": _Search.description,
    "comment": _Search.comment,
    "link": _Search.link,
    "subtask:assignee": _Search.subtask,
    **{name: _on(column) for name, column in _DATES.items()},
    **{f"{name}range": _between(column) for name, column in _DATES.items() if name != "started"},
}


# A statement pays for each table that it names, so only those are joined that a condition asks for.
_ALIAS: Final = re.compile(r"\b([a-z]{1,2})\.")
_JOINS: Final = {
    "l": " JOIN lanes l ON l.id = t.lane_id",
    "f": " LEFT JOIN task_faces f ON f.task_id = t.id",
    "k": " LEFT JOIN project_has_categories k ON k.id = f.category_id AND f.category_id <> 0",
    "c": " JOIN columns c ON c.id = t.column_id",
    "w": " JOIN swimlanes w ON w.id = t.swimlane_id",
    "u": " LEFT JOIN users u ON u.id = t.owner_id",
    "uc": " LEFT JOIN users uc ON uc.id = t.creator_id",
}


def search(
    conn: Connection,
    project_id: int,
    query: CardQuery,
    viewer: Viewer | None,
    me: int,
    now: datetime,
    zone: tzinfo,
) -> list[Row]:
    """The visible cards of the project for which every field of the query holds, by id."""
    building = _Search(me, now, zone)
    conditions = [
        "(" + " OR ".join(_FIELDS[name](building, value) for value in values) + ")"
        for name, values in query.terms.items()
    ]
    where = " AND ".join(["t.project_id = %(project)s", *conditions, SEEN_HERE])
    values = {"project": project_id, **through(viewer), **building.values}
    named = set(_ALIAS.findall(where))
    joins = "".join(join for alias, join in _JOINS.items() if alias in named or (alias == "f" and "k" in named))
    found = conn.execute(f"SELECT t.id FROM tasks t{joins} WHERE {where} ORDER BY t.id", values).fetchall()
    return whole(conn, [row[0] for row in found], viewer)


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= _INT4


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
