"""Everything that a Kanboard tells over its API, as the rows in which boards move.

It is asked with the token of the application, which sees every project. What the API does not tell cannot be carried:
passwords, avatars, activity, notifications, plugins' data, analytics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from taskfabric.boards.kanboard.client import Doubtful, Kanboard, say
from taskfabric.boards.native.moved_tables import PARAMS, TABLES
from taskfabric.domain.card_actions import ACTIONS
from taskfabric.domain.principal import APP_TOKEN, Kind, Trust
from taskfabric.domain.status import COLUMN_TITLES, ColumnRole

_PER_TASK: Final = 20  # tasks whose parts are asked for together
_ROLE_OF: Final = {title.casefold(): role.value for role, title in COLUMN_TITLES.items()}
_DONE: Final = ColumnRole.DONE.value
_BLOCKED_BY: Final = 3  # Kanboard's id of "is blocked by"
_MADE_UP: Final = 2**31  # ids from here on are ours; Kanboard's have fewer bits
_APP: Final = _MADE_UP  # whom we take for the token of the application, which Kanboard calls user 0
_OF_THE_HOUSE: Final = ("getAllUsers", "getAllGroups", "getAllLinks", "getAllTags")

Record = dict[str, Any]


def read(
    board: Kanboard, *, say_what: Callable[[str], None], left: Callable[[str, str], None]
) -> tuple[dict[str, int], Iterator[Record]]:
    """The highest ids, by table, and the rows, each after those that it names. ``left`` is told what could not be read
    or does not travel, and why.

    Raises Unavailable when the Kanboard does not answer."""
    reader = _Reader(board, say_what, left)
    first = [*reader.people(), *reader.projects()]
    highest: Counter[str] = Counter()
    for row in first:
        if row.get("id", 0) < _MADE_UP:
            highest[row["table"]] = max(highest[row["table"]], row.get("id", 0))
    highest["tasks"] = reader.highest_task()
    return dict(+highest), chain(first, reader.tasks())


class _Reader:
    def __init__(self, board: Kanboard, say_what: Callable[[str], None], left: Callable[[str, str], None]) -> None:
        self._board = board
        self._say = say_what
        self._left = left
        self._labels: dict[str, int] = {}  # of links, with their ids
        self._projects: list[Mapping[str, Any]] = []
        self._roles: dict[int, str | None] = {}  # of columns
        self._people: set[int] = set()
        self._unsigned = 0  # things whose author it was not told
        self._places: dict[int, int] = {}  # of the tasks of a project
        self._tags: set[tuple[int, int]] = set()  # with their projects; 0: of no project

    def _ask(self, *calls: tuple[str, Mapping[str, Any]]) -> list[Any]:
        """The results; one that Kanboard could not give is None, and said."""
        answers = self._board.many([say(method, **params) for method, params in calls])
        for (method, params), answer in zip(calls, answers, strict=True):
            if isinstance(answer, Doubtful):
                self._left(f"{method} {dict(params)}"[:120], answer.message)
        return [None if isinstance(answer, Doubtful) else answer for answer in answers]

    # -- people --------------------------------------------------------------------------------------

    def people(self) -> Iterator[Record]:
        """Users, groups, link labels and the tags of no project."""
        self._say("people")
        users, groups, labels, tags = self._ask(*((name, {}) for name in _OF_THE_HOUSE))
        self._people = {int(user["id"]) for user in users or ()}
        yield {
            **{"table": "users", "id": _APP, "username": APP_TOKEN, "name": "The app token of a Kanboard"},
            **{"kind": Kind.SERVICE.value, "trust": int(Trust.TRUSTED), "is_active": False},
        }
        for user in users or ():
            yield {
                **{"table": "users", "id": int(user["id"]), "username": user["username"], "kind": "human", "trust": 3},
                "capabilities": None,
                **{
                    "name": user.get("name") or "",
                    "email": user.get("email") or "",
                    "is_active": _true(user["is_active"]),
                },
                **{"role": user.get("role") or "app-user", "timezone": user.get("timezone") or "UTC"},
            }
        for group in groups or ():
            yield {
                **{"table": "groups", "id": int(group["id"]), "name": group["name"]},
                "external_id": group.get("external_id") or "",
            }
        members = self._ask(*(("getGroupMembers", {"group_id": int(group["id"])}) for group in groups or ()))
        for group, found in zip(groups or (), members, strict=True):
            for member in found or ():
                yield {"table": "group_has_users", "group_id": int(group["id"]), "user_id": int(member["id"])}
        for tag in tags or ():
            if not int(tag["project_id"] or 0):
                self._tags.add((0, int(tag["id"])))
                color = tag.get("color_id")
                yield {"table": "tags", "id": int(tag["id"]), "project_id": 0, "name": tag["name"], "color_id": color}
        for label in labels or ():
            self._labels[label["label"]] = int(label["id"])
            yield {
                **{"table": "links", "id": int(label["id"]), "label": label["label"]},
                "opposite_id": int(label["opposite_id"]),
            }

    # -- projects ------------------------------------------------------------------------------------

    def projects(self) -> Iterator[Record]:
        """Every project with its furniture, one table after the other."""
        (projects,) = self._ask(("getAllProjects", {}))
        self._projects = sorted(projects or (), key=lambda p: int(p["id"]))
        found: dict[str, list[Record]] = {}
        for project in self._projects:
            self._say(f"project {project['name']}")
            for row in self._project(project):
                found.setdefault(row["table"], []).append(row)
        self._only_what_runs(found)
        self._roles = {row["id"]: row.get("role") for row in found.get("columns", ())}
        for table in TABLES:
            yield from found.get(table.name, ())

    def _only_what_runs(self, found: dict[str, list[Record]]) -> None:
        """Automatic actions that would not run here are left out: of another kind, or about what does not come."""
        there = {table: {row["id"] for row in rows if "id" in row} for table, rows in found.items()}
        there["users"] = self._people
        why = {
            action["id"]: "no such automatic action is offered here"
            for action in found.get("actions", ())
            if action["action_name"] not in ACTIONS
        }
        for param in found.get("action_has_params", ()):
            name, value = param["name"], param["value"]
            if name in PARAMS and value.isdecimal() and int(value) not in {0} | there.get(PARAMS[name], set()):
                why.setdefault(param["action_id"], f"its {name} names {value}, which is not there")
        for action in found.get("actions", ()):
            if action["id"] in why:
                kind = str(action["action_name"]).rpartition("\\")[2]
                self._left(f"action {action['id']} ({kind}) of project {action['project_id']}", why[action["id"]])
        found["actions"] = [row for row in found.get("actions", ()) if row["id"] not in why]
        found["action_has_params"] = [row for row in found.get("action_has_params", ()) if row["action_id"] not in why]

    def highest_task(self) -> int:
        """The highest number of a task; 0 if there is none."""
        lists = self._ask(*(call for project in self._projects for call in _task_lists(int(project["id"]))))
        return max((int(task["id"]) for found in lists for task in found or ()), default=0)

    def tasks(self) -> Iterator[Record]:
        """The files of projects, all tasks, then what joins tasks."""
        ids: dict[int, int] = {}  # with their projects
        done: set[int] = set()
        for project in self._projects:
            self._say(f"tasks of {project['name']}")
            at = {"project_id": int(project["id"])}
            (files,) = self._ask(("getAllProjectFiles", at))
            yield from self._files("project_has_files", files or (), at)
            for row in self._tasks(at["project_id"]):
                yield row
                if row["table"] == "tasks":
                    ids[row["id"]] = row["project_id"]
                    if not row["is_active"] or self._roles.get(row["column_id"]) == _DONE:
                        done.add(row["id"])
        every = list(ids)
        for begin in range(0, len(every), _PER_TASK):
            self._say(f"what belongs to task {begin + 1} of {len(every)}")
            yield from self._parts({task: ids[task] for task in every[begin : begin + _PER_TASK]}, done)
        if self._unsigned:
            self._left(
                f"the authors of {self._unsigned} tasks, comments, files and links",
                f"a Kanboard does not tell them (its app token, or accounts that are gone): they are `{APP_TOKEN}`'s",
            )

    def _project(self, project: Mapping[str, Any]) -> Iterator[Record]:
        at = {"project_id": int(project["id"])}
        columns, lanes, categories, users, meta, tags, actions = self._ask(
            *((name, at) for name in ("getColumns", "getAllSwimlanes", "getAllCategories", "getProjectUsers")),
            *((name, at) for name in ("getProjectMetadata", "getTagsByProject", "getActions")),
        )
        if _true(project.get("is_public")):
            self._left(f"public access of {project['name']}", "links that need no password do not travel")
        yield {
            **{"table": "projects", "id": at["project_id"], "name": project["name"]},
            **{"description": project.get("description") or "", "identifier": project.get("identifier") or ""},
            **{"is_active": _true(project["is_active"]), "is_private": _true(project.get("is_private"))},
            **{"owner_id": int(project.get("owner_id") or 0) or None, "email": project.get("email")},
            **{f"priority_{what}": int(project.get(f"priority_{what}") or 0) for what in ("default", "start", "end")},
            **{f"{what}_date": project.get(f"{what}_date") or "" for what in ("start", "end")},
        }
        taken: set[str] = set()
        for column in columns or ():
            role = _ROLE_OF.get(str(column["title"]).casefold())
            role = None if role in taken else role
            taken.add(role or "")
            yield {
                **{"table": "columns", "id": int(column["id"]), **at, "title": column["title"], "role": role},
                **{"position": int(column["position"]), "task_limit": int(column.get("task_limit") or 0)},
                **{"description": column.get("description") or ""},
                "hide_in_dashboard": _true(column.get("hide_in_dashboard")),
            }
        for place, lane in enumerate(lanes or (), 1):
            yield {
                **{"table": "swimlanes", "id": int(lane["id"]), **at, "name": lane["name"]},
                **{"position": int(lane.get("position") or place), "is_active": _true(lane.get("is_active", True))},
                **{"description": lane.get("description") or "", "task_limit": int(lane.get("task_limit") or 0)},
            }
        roles = self._ask(*(("getProjectUserRole", {**at, "user_id": int(user)}) for user in users or {}))
        for user, role in zip(users or {}, roles, strict=True):
            if role in ("project-manager", "project-member", "project-viewer"):
                yield {"table": "project_has_users", **at, "user_id": int(user), "role": role}
            else:
                self._left(f"membership of user {user} in {project['name']}", f"the role {role!r} is Kanboard's own")
        for category in categories or ():
            yield {
                **{"table": "project_has_categories", "id": int(category["id"]), **at, "name": category["name"]},
                **{"color_id": category.get("color_id"), "description": category.get("description") or ""},
            }
        for name, value in _pairs(meta):
            yield {"table": "project_has_metadata", **at, "name": name, "value": value}
        for tag in tags or ():
            if int(tag["project_id"]) == at["project_id"]:
                self._tags.add((at["project_id"], int(tag["id"])))
                yield {
                    **{"table": "tags", "id": int(tag["id"]), **at, "name": tag["name"]},
                    "color_id": tag.get("color_id"),
                }
        for action in actions or ():
            yield {
                **{"table": "actions", "id": int(action["id"]), **at, "event_name": action["event_name"]},
                "action_name": action["action_name"],
            }
            for name, value in _pairs(action.get("params")):
                yield {"table": "action_has_params", "action_id": int(action["id"]), "name": name, "value": value}

    # -- tasks ---------------------------------------------------------------------------------------

    def _tasks(self, project_id: int) -> Iterator[Record]:
        answers = self._ask(*_task_lists(project_id))
        found = sorted((task for answer in answers for task in answer or ()), key=_place)
        self._places = {int(task["id"]): place for place, task in enumerate(found)}
        yield from self._each("task", found, self._task)
        yield from self._each("the colour, hours and recurrence of task", found, self._face)

    def _each(
        self, what: str, things: Iterable[Mapping[str, Any]], row: Callable[[Mapping[str, Any]], Record]
    ) -> Iterator[Record]:
        """Their rows; a thing with a value that is none (SQLite stores anything) is left out."""
        for thing in things:
            try:
                yield row(thing)
            except (ArithmeticError, LookupError, TypeError, ValueError, OSError) as error:
                self._left(f"{what} {thing.get('id')}", f"it has a value that is none: {str(error)[:100]}")

    def _task(self, task: Mapping[str, Any]) -> Record:
        maker = self._author(task, "creator_id")
        return {
            **{"table": "tasks", "id": int(task["id"]), "project_id": int(task["project_id"]), "title": task["title"]},
            **{"column_id": int(task["column_id"]), "swimlane_id": int(task["swimlane_id"])},
            **{"description": task.get("description") or "", "reference": task.get("reference") or ""},
            **{"creator_id": maker, "owner_id": int(task.get("owner_id") or 0) or None},
            **{"is_active": _true(task["is_active"]), "score": _number(task.get("score"))},
            **{"priority": min(3, max(0, int(task.get("priority") or 0))), "rank": self._places[int(task["id"])] << 20},
            **{f"date_{what}": _time(task.get(f"date_{what}")) for what in ("creation", "modification", "due")},
            **{f"date_{what}": _time(task.get(f"date_{what}")) for what in ("started", "completed")},
            "trust": int(Trust.HUMAN if maker in self._people else Trust.UNTRUSTED),
        }

    def _face(self, task: Mapping[str, Any]) -> Record:
        return {
            **{"table": "task_faces", "task_id": int(task["id"]), "color_id": task.get("color_id") or "yellow"},
            **{"category_id": int(task.get("category_id") or 0), "date_moved": _time(task.get("date_moved"))},
            **{f"time_{what}": _hours(task.get(f"time_{what}")) for what in ("spent", "estimated")},
            **{f"recurrence_{what}": int(task.get(f"recurrence_{what}") or 0) for what in _RECURRENCE},
            **{f"recurrence_{who}": int(task.get(f"recurrence_{who}") or 0) or None for who in ("parent", "child")},
            "priority": _outside(int(task.get("priority") or 0)),
        }

    def _parts(self, ids: Mapping[int, int], done: set[int]) -> Iterator[Record]:
        """``ids``: tasks with their projects."""
        calls = [(name, {"task_id": task}) for task in ids for name in _PARTS]
        answers = iter(self._ask(*calls))
        for task, project in ids.items():
            tags, comments, links, subtasks, files, meta, external = (next(answers) for _ in _PARTS)
            at = {"task_id": task}
            for tag, name in _pairs(tags):
                yield from self._tag(task, project, int(tag), name)
            yield from self._each("comment", self._comments(comments or ()), self._comment)
            for link in links or ():
                yield self._link(task, link, done)
            yield from self._each("subtask", subtasks or (), _subtask)
            for name, value in _pairs(meta):
                yield {"table": "task_has_metadata", **at, "name": name, "value": value}
            yield from self._each("external link", external or (), self._external)
            yield from self._files("task_has_files", files or (), at)

    def _author(self, thing: Mapping[str, Any], column: str) -> int:
        """Who made it. What nobody made, the token of the application did, or somebody whose account is no more."""
        author = int(thing.get(column) or 0)
        self._unsigned += not author
        return author or _APP

    def _comment(self, comment: Mapping[str, Any]) -> Record:
        return {
            **{"table": "comments", "id": int(comment["id"]), "task_id": int(comment["task_id"])},
            **{"text": comment["comment"], "reference": comment.get("reference") or ""},
            **{"user_id": self._author(comment, "user_id"), "visibility": comment.get("visibility") or "app-user"},
            **{f"date_{what}": _time(comment.get(f"date_{what}")) for what in ("creation", "modification")},
        }

    def _external(self, link: Mapping[str, Any]) -> Record:
        return {
            **{"table": "task_has_external_links", "id": int(link["id"]), "task_id": int(link["task_id"])},
            **{what: link.get(what) or "" for what in ("link_type", "dependency", "title", "url")},
            **{f"date_{what}": _time(link.get(f"date_{what}")) for what in ("creation", "modification")},
            "creator_id": self._author(link, "creator_id"),
        }

    def _comments(self, comments: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those comments with their references, which the list of them does not tell."""
        unsaid = [comment for comment in comments if "reference" not in comment]
        whole = self._ask(*(("getComment", {"comment_id": int(comment["id"])}) for comment in unsaid))
        told = {int(comment["id"]): found for comment, found in zip(unsaid, whole, strict=True) if found}
        return [told.get(int(comment["id"]), comment) for comment in comments]

    def _tag(self, task: int, project: int, tag: int, name: str) -> Iterator[Record]:
        """A tag of a task. One that is of another project becomes one of the task's project."""
        if not {(project, tag), (0, tag)} & self._tags:
            tag += project * _MADE_UP
            yield {"table": "tags", "id": tag, "project_id": project, "name": name}
        yield {"table": "task_has_tags", "task_id": task, "tag_id": tag}

    def _link(self, task: int, link: Mapping[str, Any], done: set[int]) -> Record:
        """A link as its own task sees it; the opposite one comes with the other task."""
        other, label = int(link["task_id"]), self._labels.get(str(link["label"]), 0)
        state = ("satisfied" if other in done else "open") if label == _BLOCKED_BY else None
        return {
            **{"table": "task_has_links", "id": int(link["id"]), "task_id": task, "opposite_task_id": other},
            **{"link_id": label, "state": state},
        }

    def _files(self, table: str, files: Sequence[Mapping[str, Any]], at: Mapping[str, int]) -> Iterator[Record]:
        method = "downloadTaskFile" if table == "task_has_files" else "downloadProjectFile"
        for file in files:
            where = {"file_id": int(file["id"])} | (dict(at) if "project_id" in at else {})
            (data,) = self._ask((method, where))
            yield {
                **{"table": table, "id": int(file["id"]), **at, "name": file["name"], "data": data or ""},
                **{"user_id": self._author(file, "user_id"), "date": _time(file.get("date"))},
            }


_PARTS: Final = (
    *("getTaskTags", "getAllComments", "getAllTaskLinks", "getAllSubtasks", "getAllTaskFiles", "getTaskMetadata"),
    "getAllExternalTaskLinks",
)
_SUBTASK: Final = {status: status for status in range(3)}  # there is no other; Kanboard takes any
_RECURRENCE: Final = ("status", "trigger", "factor", "timeframe", "basedate")


def _task_lists(project_id: int) -> list[tuple[str, Mapping[str, Any]]]:
    """The calls for its open and its closed tasks."""
    return [("getAllTasks", {"project_id": project_id, "status_id": status}) for status in (1, 0)]


def _place(task: Mapping[str, Any]) -> tuple[int, int]:
    return int(task["position"]), int(task["id"])


def _subtask(subtask: Mapping[str, Any]) -> Record:
    return {
        **{"table": "subtasks", "id": int(subtask["id"]), "task_id": int(subtask["task_id"])},
        **{
            "title": subtask["title"],
            "status": _SUBTASK[int(subtask["status"])],
            "user_id": int(subtask.get("user_id") or 0),
        },
        **{f"time_{what}": float(subtask.get(f"time_{what}") or 0) for what in ("estimated", "spent")},
        "position": int(subtask["position"]),
    }


def _true(value: object) -> bool:
    return value in (True, 1, "1")


def _hours(value: object) -> float | None:
    return None if value in (None, "") else float(str(value))


def _number(value: object) -> int | None:
    return int(str(value)) if value not in (None, "", 0, "0") else None


def _outside(priority: int) -> int | None:
    """A priority that none of the four lanes has is kept beside the task."""
    return None if 0 <= priority <= 3 else priority


def _time(value: object) -> str | None:
    """Epoch seconds as an instant; 0 and nothing are no time."""
    seconds = int(str(value or 0))
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds > 0 else None


def _pairs(answer: object) -> list[tuple[str, str]]:
    """What Kanboard gives as an object, and as an empty list when there is nothing."""
    return [(str(k), str(v)) for k, v in answer.items()] if isinstance(answer, dict) else []
