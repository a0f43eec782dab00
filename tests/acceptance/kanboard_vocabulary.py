"""What the differential test says: procedures, what their arguments are, and where the two may differ on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final


class Sort(Enum):
    """Things that have numbers, other ones on each side."""

    PROJECT = "project"
    COLUMN = "column"
    SWIMLANE = "swimlane"
    CATEGORY = "category"
    USER = "user"
    GROUP = "group"
    TASK = "task"
    COMMENT = "comment"
    SUBTASK = "subtask"
    TAG = "tag"
    LINK = "link"
    EXTERNAL = "external link"
    FILE = "file"
    PROJECT_FILE = "project file"

    @classmethod
    def of_field(cls, key: str) -> Sort | None:
        """What a field of an answer points to."""
        return _FIELDS.get(key)


_FIELDS: Final = {
    "project_id": Sort.PROJECT,
    "column_id": Sort.COLUMN,
    "swimlane_id": Sort.SWIMLANE,
    "category_id": Sort.CATEGORY,
    "owner_id": Sort.USER,
    "creator_id": Sort.USER,
    "user_id": Sort.USER,
    "task_id": Sort.TASK,
    "group_id": Sort.GROUP,
    "recurrence_parent": Sort.TASK,
    "recurrence_child": Sort.TASK,
}
NOWHERE: Final = 900_001  # the number of nothing, on both sides
# Addresses and secrets; and counts that depend on what else happened there.
HOURS: Final = frozenset({"time_estimated", "time_spent", "task_time_estimated", "task_time_spent"})
AUTHOR: Final = frozenset({"user_id", "username", "name", "email", "avatar_path"})
# Of instants it is compared whether there is one: no two clocks agree.
INSTANTS: Final = frozenset({"date_creation", "date_modification", "date_moved", "date_completed", "date_started"})
VOLATILE: Final = frozenset(
    {
        *("date", "last_modified", "url", "token"),
        *("is_everybody_allowed", "default_swimlane", "show_default_swimlane"),  # by the database that Kanboard has
        "is_draggable",  # nobody drags with the app token there
        *("etag", "path", "password", "timezone", "event_content", "changed_on", "changed_by", "nb_users"),
    }
)

Argument = Sort | Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A procedure as the test calls it."""

    arguments: Mapping[str, Argument]
    optional: frozenset[str] = frozenset()
    makes: Sort | None = None  # what its number is the number of
    of: Sort | None = None  # what an id in its answer is the number of
    reads: bool = False


def _call(
    needed: Mapping[str, Argument],
    optional: Mapping[str, Argument] | None = None,
    *,
    makes: Sort | None = None,
    of: Sort | None = None,
    reads: bool = False,
) -> Spoken:
    more = optional or {}
    return Spoken(arguments={**needed, **more}, optional=frozenset(more), makes=makes, of=of, reads=reads)


_P: Final[dict[str, Argument]] = {"project_id": Sort.PROJECT}
_T: Final[dict[str, Argument]] = {"task_id": Sort.TASK}
_TITLES: Final = ("one", "two", "Three", "ünï")
_POSITIONS: Final = (0, 1, 2, 3, 9)
_ROLES: Final = ("project-manager", "project-member", "project-viewer")
_TAGS: Final[tuple[list[str], ...]] = (["a"], ["a", "b"], ["b", "c"], [])
_DATES: Final = ("2031-12-24 10:30", "2032-01-31 08:00")
_AGAIN: Final[dict[str, Argument]] = {
    **{"recurrence_status": (0, 1, 1), "recurrence_trigger": (0, 1, 2)},
    **{"recurrence_factor": (0, 1, -3), "recurrence_timeframe": (0, 1, 2)},
}

CALLS: Final[dict[str, Spoken]] = {
    # -- projects and their furniture
    "getProjectById": _call(_P, of=Sort.PROJECT, reads=True),
    "updateProject": _call(
        _P, {"name": _TITLES, "description": ("words", "more"), "priority_end": (3, 5), "email": ("nowhere",)}
    ),
    "enableProject": _call(_P),
    "disableProject": _call(_P),
    "getColumns": _call(_P, of=Sort.COLUMN, reads=True),
    "getColumn": _call({"column_id": Sort.COLUMN}, of=Sort.COLUMN, reads=True),
    "addColumn": _call({**_P, "title": _TITLES}, {"task_limit": (0, 3), "description": ("x",)}, makes=Sort.COLUMN),
    "updateColumn": _call({"column_id": Sort.COLUMN, "title": _TITLES}, {"task_limit": (0, 2)}),
    "changeColumnPosition": _call({**_P, "column_id": Sort.COLUMN, "position": _POSITIONS}),
    "removeColumn": _call({"column_id": Sort.COLUMN}),
    "getAllSwimlanes": _call(_P, of=Sort.SWIMLANE, reads=True),
    "getActiveSwimlanes": _call(_P, of=Sort.SWIMLANE, reads=True),
    "getSwimlane": _call({"swimlane_id": Sort.SWIMLANE}, of=Sort.SWIMLANE, reads=True),
    "getSwimlaneByName": _call({**_P, "name": _TITLES}, of=Sort.SWIMLANE, reads=True),
    "addSwimlane": _call({**_P, "name": _TITLES}, {"description": ("x",)}, makes=Sort.SWIMLANE),
    "updateSwimlane": _call({**_P, "swimlane_id": Sort.SWIMLANE, "name": _TITLES}),
    "removeSwimlane": _call({**_P, "swimlane_id": Sort.SWIMLANE}),
    "disableSwimlane": _call({**_P, "swimlane_id": Sort.SWIMLANE}),
    "enableSwimlane": _call({**_P, "swimlane_id": Sort.SWIMLANE}),
    "changeSwimlanePosition": _call({**_P, "swimlane_id": Sort.SWIMLANE, "position": _POSITIONS}),
    "getAllCategories": _call(_P, of=Sort.CATEGORY, reads=True),
    "getCategory": _call({"category_id": Sort.CATEGORY}, of=Sort.CATEGORY, reads=True),
    "createCategory": _call({**_P, "name": _TITLES}, {"color_id": ("red",)}, makes=Sort.CATEGORY),
    "updateCategory": _call({"id": Sort.CATEGORY, "name": _TITLES}),
    "removeCategory": _call({"category_id": Sort.CATEGORY}),
    # -- people
    "getProjectUsers": _call(_P, of=Sort.USER, reads=True),
    "getAssignableUsers": _call(_P, of=Sort.USER, reads=True),
    "getProjectUserRole": _call({**_P, "user_id": Sort.USER}, reads=True),
    "addProjectUser": _call({**_P, "user_id": Sort.USER}, {"role": _ROLES}),
    "changeProjectUserRole": _call({**_P, "user_id": Sort.USER, "role": _ROLES}),
    "removeProjectUser": _call({**_P, "user_id": Sort.USER}),
    # -- metadata and files
    "getProjectMetadata": _call(_P, reads=True),
    "getProjectMetadataByName": _call({**_P, "name": ("a", "b")}, reads=True),
    "saveProjectMetadata": _call({**_P, "values": ({"a": "1"}, {"a": 2, "b": True}, {})}),
    "removeProjectMetadata": _call({**_P, "name": ("a", "b")}),
    "createProjectFile": _call(
        {**_P, "filename": ("a.txt", "b.png"), "blob": ("aGVsbG8=", "", "!!!")}, makes=Sort.PROJECT_FILE
    ),
    "getAllProjectFiles": _call(_P, of=Sort.PROJECT_FILE, reads=True),
    "downloadProjectFile": _call({**_P, "file_id": Sort.PROJECT_FILE}, reads=True),
    "removeProjectFile": _call({**_P, "file_id": Sort.PROJECT_FILE}),
    # -- tasks
    "createTask": _call(
        {**_P, "title": _TITLES},
        {
            "column_id": Sort.COLUMN,
            "swimlane_id": Sort.SWIMLANE,
            "owner_id": Sort.USER,
            "category_id": Sort.CATEGORY,
            "color_id": ("red", "blue"),
            "priority": (0, 1, 2, 3),
            "score": (0, 5),
            "description": ("words",),
            "reference": ("ref-1", "ref-2"),
            "tags": _TAGS,
            "date_due": _DATES,
            **_AGAIN,
        },
        makes=Sort.TASK,
    ),
    "getTask": _call(_T, of=Sort.TASK, reads=True),
    "getTaskTags": _call(_T, of=Sort.TAG, reads=True),
    "getTaskMetadata": _call(_T, reads=True),
    "duplicateTaskToProject": _call({**_T, **_P}, makes=Sort.TASK),
    "getTaskByReference": _call({**_P, "reference": ("ref-9",)}, of=Sort.TASK, reads=True),
    "getAllTasks": _call(_P, {"status_id": (0, 1)}, of=Sort.TASK, reads=True),
    "getBoard": _call(_P, of=Sort.SWIMLANE, reads=True),
    "searchTasks": _call(
        {
            **_P,
            "query": (
                *(
                    "one",
                    "status:open",
                    "status:closed",
                    "column:Backlog",
                    "tag:a",
                    "tag:none",
                    "color:red",
                    "title:two",
                ),
                *("assignee:nobody", "priority:2", "reference:ref-1", "swimlane:one", "category:one", "desc:words"),
                *("status:open tag:a", "tag:a tag:b", "nothing like this"),
            ),
        },
        of=Sort.TASK,
        reads=True,
    ),
    "updateTask": _call(
        {"id": Sort.TASK},
        {
            "title": _TITLES,
            "owner_id": Sort.USER,
            "color_id": ("green",),
            "priority": (0, 3),
            "score": (3,),
            "description": ("", "changed"),
            "category_id": Sort.CATEGORY,
            "reference": ("ref-3",),
            "tags": _TAGS,
            "date_due": _DATES,
            **_AGAIN,
        },
    ),
    "moveTaskPosition": _call(
        {
            **_P,
            "task_id": Sort.TASK,
            "column_id": Sort.COLUMN,
            "position": _POSITIONS,
            "swimlane_id": Sort.SWIMLANE,
        }
    ),
    "openTask": _call(_T),
    "closeTask": _call(_T),
    "removeTask": _call(_T),
    "setTaskTags": _call({**_P, "task_id": Sort.TASK, "tags": _TAGS}),
    "getTagsByProject": _call(_P, of=Sort.TAG, reads=True),
    "createTag": _call({**_P, "tag": ("a", "b", "x")}, {"color_id": ("red",)}, makes=Sort.TAG),
    "updateTag": _call({"tag_id": Sort.TAG, "tag": ("y", "z")}),
    "removeTag": _call({"tag_id": Sort.TAG}),
    "createComment": _call({**_T, "user_id": Sort.USER, "content": ("a word", "")}, makes=Sort.COMMENT),
    "getComment": _call({"comment_id": Sort.COMMENT}, of=Sort.COMMENT, reads=True),
    "getAllComments": _call(_T, of=Sort.COMMENT, reads=True),
    "updateComment": _call({"id": Sort.COMMENT, "content": ("other words",)}),
    "removeComment": _call({"comment_id": Sort.COMMENT}),
    "createSubtask": _call({**_T, "title": _TITLES}, {"status": (0, 1, 2), "time_estimated": (1,)}, makes=Sort.SUBTASK),
    "getSubtask": _call({"subtask_id": Sort.SUBTASK}, of=Sort.SUBTASK, reads=True),
    "getAllSubtasks": _call(_T, of=Sort.SUBTASK, reads=True),
    "updateSubtask": _call({"id": Sort.SUBTASK, "task_id": Sort.TASK}, {"title": _TITLES, "status": (0, 1, 2)}),
    "removeSubtask": _call({"subtask_id": Sort.SUBTASK}),
    "createTaskLink": _call(
        {"task_id": Sort.TASK, "opposite_task_id": Sort.TASK, "link_id": (1, 4, 10)}, makes=Sort.LINK
    ),
    "getAllTaskLinks": _call(_T, of=Sort.LINK, reads=True),
    "removeTaskLink": _call({"task_link_id": Sort.LINK}),
    "createExternalTaskLink": _call(
        {**_T, "url": ("https://example.org/a",), "dependency": ("related",)},
        {"type": ("weblink",), "title": ("a page",)},
        makes=Sort.EXTERNAL,
    ),
    "getAllExternalTaskLinks": _call(_T, of=Sort.EXTERNAL, reads=True),
    "removeExternalTaskLink": _call({**_T, "link_id": Sort.EXTERNAL}),
    "getTaskMetadataByName": _call({**_T, "name": ("a", "b")}, reads=True),
    "saveTaskMetadata": _call({**_T, "values": ({"a": "1"}, {"a": 2, "b": True}, {})}),
    "removeTaskMetadata": _call({**_T, "name": ("a", "b")}),
    "createTaskFile": _call(
        {**_P, "task_id": Sort.TASK, "filename": ("a.txt",), "blob": ("aGVsbG8=", "!!!")}, makes=Sort.FILE
    ),
    "getAllTaskFiles": _call(_T, of=Sort.FILE, reads=True),
    "downloadTaskFile": _call({"file_id": Sort.FILE}, reads=True),
    "removeTaskFile": _call({"file_id": Sort.FILE}),
    "hasSubtaskTimer": _call({"subtask_id": Sort.SUBTASK, "user_id": Sort.USER}, reads=True),
}


def differs_on_purpose(method: str, arguments: Mapping[str, object], ours: Any, theirs: Any) -> bool:
    """The table of DESIGN.md: here nothing is true about a thing that is not there, or about a task and itself."""
    nothing = NOWHERE in arguments.values()
    itself = method == "createTaskLink" and arguments["task_id"] == arguments["opposite_task_id"]
    if method == "getTagsByProject":
        return nothing
    if nothing and str(ours).startswith("error 403"):
        return True  # missing and forbidden are the same statement, whichever argument it is
    return ours is False and theirs is not False and (nothing or itself or method == "changeProjectUserRole")
