"""What moves when a board moves: the tables in an order in which each comes after those that it names.

A row travels as a JSON object: ``table``, ``id`` (theirs, where the table has one) and its columns. What is no part of
a board is not listed: credentials, PINs, lease tokens, ledgers, the journal, outboxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTable:
    """One table. ``columns``: each with its SQL type; ``refs``: those that hold an id of another table.

    ``natural``: the columns by which a row that is here already is recognised (its own references mapped). ``weak``:
    references that become NULL where the row is unknown; a row whose other references are unknown is left out.
    ``page``: the column by which an export goes on; rows that share a value are never cut apart."""

    name: str
    columns: Mapping[str, str]
    refs: Mapping[str, str] = field(default_factory=dict)
    weak: frozenset[str] = frozenset()
    natural: tuple[str, ...] = ()
    has_id: bool = True
    page: str = "id"
    size: int = 500  # rows of a page
    where: str = "true"


_TIME: Final = "timestamptz"
_FILE: Final = {"name": "text", "sha256": "text", "size": "bigint", "user_id": "integer", "date": _TIME}

TABLES: Final = (
    MovedTable(
        name="users",
        columns={
            **{name: "text" for name in ("username", "name", "kind", "role", "email", "timezone")},
            **{"trust": "smallint", "is_active": "boolean", "owner_id": "integer", "tiers": "text[]"},
            **{"capabilities": "text[]", "concurrency": "integer", "date_creation": _TIME, "removed": "boolean"},
        },
        refs={"owner_id": "users"},
        weak=frozenset({"owner_id"}),
        natural=("username",),
        where="t.id <> 0",
    ),
    MovedTable(name="groups", columns={"name": "text", "external_id": "text"}, natural=("name",)),
    MovedTable(
        name="group_has_users",
        columns={"group_id": "integer", "user_id": "integer"},
        refs={"group_id": "groups", "user_id": "users"},
        has_id=False,
        page="group_id",
    ),
    MovedTable(
        name="projects",
        columns={
            **{name: "text" for name in ("name", "description", "identifier", "email", "start_date", "end_date")},
            **{name: "boolean" for name in ("is_active", "is_private")},
            **{name: "smallint" for name in ("priority_default", "priority_start", "priority_end")},
            **{"owner_id": "integer", "last_modified": _TIME},
        },
        refs={"owner_id": "users"},
        weak=frozenset({"owner_id"}),
    ),
    MovedTable(
        name="columns",
        columns={
            **{"project_id": "integer", "title": "text", "position": "integer", "task_limit": "integer"},
            **{"description": "text", "role": "text", "hide_in_dashboard": "boolean"},
        },
        refs={"project_id": "projects"},
        natural=("project_id", "title"),
    ),
    MovedTable(
        name="swimlanes",
        columns={
            **{"project_id": "integer", "name": "text", "position": "integer", "is_active": "boolean"},
            **{"description": "text", "task_limit": "integer"},
        },
        refs={"project_id": "projects"},
        natural=("project_id", "name"),
    ),
    MovedTable(
        name="project_has_users",
        columns={"project_id": "integer", "user_id": "integer", "role": "text"},
        refs={"project_id": "projects", "user_id": "users"},
        has_id=False,
        page="project_id",
    ),
    MovedTable(
        name="project_has_groups",
        columns={"project_id": "integer", "group_id": "integer", "role": "text"},
        refs={"project_id": "projects", "group_id": "groups"},
        has_id=False,
        page="project_id",
    ),
    MovedTable(
        name="project_has_categories",
        columns={"project_id": "integer", "name": "text", "color_id": "text", "description": "text"},
        refs={"project_id": "projects"},
        natural=("project_id", "name"),
    ),
    MovedTable(
        name="project_has_metadata",
        columns={"project_id": "integer", "name": "text", "value": "text"},
        refs={"project_id": "projects"},
        has_id=False,
        page="project_id",
    ),
    MovedTable(
        name="queues",
        columns={
            **{"project_id": "integer", "name": "text", "kind": "text", "owner_id": "integer"},
            **{name: "boolean" for name in ("score_check", "needs_verified", "human_verify")},
            **{f"{role}_column": "integer" for role in ("backlog", "ready", "working", "done")},
            "swimlane_id": "integer",
        },
        refs={
            **{"project_id": "projects", "owner_id": "users", "swimlane_id": "swimlanes"},
            **{f"{role}_column": "columns" for role in ("backlog", "ready", "working", "done")},
        },
        has_id=False,
        page="project_id",
    ),
    MovedTable(
        name="project_has_files",
        columns={"project_id": "integer", **_FILE},
        refs={"project_id": "projects", "user_id": "users"},
        size=1,
    ),
    MovedTable(
        name="actions",
        columns={"project_id": "integer", "event_name": "text", "action_name": "text"},
        refs={"project_id": "projects"},
    ),
    MovedTable(
        name="action_has_params",
        columns={"action_id": "integer", "name": "text", "value": "text"},
        refs={"action_id": "actions"},
        has_id=False,
        page="action_id",
    ),
    MovedTable(
        name="tags",
        columns={"project_id": "integer", "name": "text", "color_id": "text"},
        refs={"project_id": "projects"},
        natural=("project_id", "name"),
    ),
    MovedTable(name="links", columns={"label": "text", "opposite_id": "integer"}, natural=("label",)),
    MovedTable(
        name="tasks",
        # The gate of an approval is worth nothing without it, and approvals do not travel.
        where="NOT EXISTS (SELECT FROM approvals a WHERE a.gate_id = t.id AND a.state = 'pending')",
        columns={
            **{"title": "text", "project_id": "integer", "column_id": "integer", "swimlane_id": "integer"},
            **{"rank": "bigint", "epoch": "bigint", "parent_id": "bigint", "root_id": "bigint"},
            **{f"date_{what}": _TIME for what in ("creation", "modification", "started", "due", "completed")},
            **{"ready_since": _TIME, "creator_id": "integer", "interlocutor_id": "integer", "owner_id": "integer"},
            **{"producer_id": "integer", "asked_id": "integer", "score": "integer", "flags": "integer"},
            **{name: "integer" for name in ("open_blockers", "dependents", "children", "open_children")},
            **{name: "smallint" for name in ("depth", "attempts", "max_attempts", "parks", "waits", "releases")},
            **{"trust": "smallint", "is_active": "boolean", "delayed": "boolean", "by_agent": "boolean"},
            **{"label": "text", "reference": "text", "hold_rule": "text", "verdict": "text"},
            # of its lane
            **{"tier": "text", "priority": "smallint", "needs": "text[]", "required_trust": "smallint"},
            # of its texts
            **{"description": "text", "refs": "text[]", "key": "text"},
            "leased": "boolean",  # somebody held a lease; the lease itself does not travel
        },
        refs={
            **{"project_id": "projects", "column_id": "columns", "swimlane_id": "swimlanes"},
            **{"parent_id": "tasks", "root_id": "tasks"},
            **{f"{who}_id": "users" for who in ("creator", "interlocutor", "owner", "producer", "asked")},
        },
        weak=frozenset(
            {"parent_id", "root_id", "interlocutor_id", "owner_id", "producer_id", "asked_id"}
            | {"column_id", "swimlane_id"}  # then it stands in the first of its project
        ),
    ),
    MovedTable(
        name="task_faces",
        columns={
            **{"task_id": "bigint", "color_id": "text", "category_id": "integer", "priority": "integer"},
            **{"time_spent": "float8", "time_estimated": "float8", "date_moved": _TIME},
            **{f"recurrence_{what}": "integer" for what in ("status", "trigger", "factor", "timeframe", "basedate")},
            **{f"recurrence_{who}": "bigint" for who in ("parent", "child")},
        },
        refs={
            **{"task_id": "tasks", "category_id": "project_has_categories"},
            **{f"recurrence_{who}": "tasks" for who in ("parent", "child")},
        },
        weak=frozenset({"recurrence_parent", "recurrence_child"}),
        has_id=False,
        page="task_id",
    ),
    MovedTable(
        name="task_has_tags",
        columns={"task_id": "bigint", "tag_id": "integer"},
        refs={"task_id": "tasks", "tag_id": "tags"},
        has_id=False,
        page="task_id",
    ),
    MovedTable(
        name="comments",
        columns={
            **{"task_id": "bigint", "date_creation": _TIME, "date_modification": _TIME, "until": _TIME},
            **{"epoch": "bigint", "user_id": "integer", "number": "smallint", "number_of": "smallint"},
            **{name: "text" for name in ("kind", "instance", "text", "reference", "visibility")},
        },
        refs={"task_id": "tasks", "user_id": "users"},
    ),
    MovedTable(
        name="task_has_links",
        columns={"link_id": "integer", "task_id": "bigint", "opposite_task_id": "bigint", "state": "text"},
        refs={"link_id": "links", "task_id": "tasks", "opposite_task_id": "tasks"},
        natural=("task_id", "link_id", "opposite_task_id"),
    ),
    MovedTable(
        name="task_has_files",
        columns={"task_id": "bigint", **_FILE},
        refs={"task_id": "tasks", "user_id": "users"},
        size=1,
    ),
    MovedTable(
        name="task_has_metadata",
        columns={"task_id": "bigint", "name": "text", "value": "text"},
        refs={"task_id": "tasks"},
        has_id=False,
        page="task_id",
    ),
    MovedTable(
        name="subtasks",
        columns={
            **{"task_id": "bigint", "title": "text", "status": "smallint", "user_id": "integer"},
            **{"time_estimated": "float8", "time_spent": "float8", "position": "integer"},
        },
        refs={"task_id": "tasks", "user_id": "users"},
    ),
    MovedTable(
        name="subtask_time_tracking",
        columns={
            **{"subtask_id": "bigint", "user_id": "integer", "started": _TIME, "ended": _TIME},
            "time_spent": "float8",
        },
        refs={"subtask_id": "subtasks", "user_id": "users"},
    ),
    MovedTable(
        name="task_has_external_links",
        columns={
            **{name: "text" for name in ("link_type", "dependency", "title", "url")},
            **{"task_id": "bigint", "creator_id": "integer", "date_creation": _TIME, "date_modification": _TIME},
        },
        refs={"task_id": "tasks", "creator_id": "users"},
    ),
    MovedTable(
        name="late_results",
        columns={
            **{"task_id": "bigint", "epoch": "bigint", "user_id": "integer", "at": _TIME},
            **{"outcome": "text", "text": "text"},
        },
        refs={"task_id": "tasks", "user_id": "users"},
        has_id=False,
        page="task_id",
    ),
    MovedTable(
        name="submissions",
        columns={
            **{"submitter_id": "integer", "key": "text", "body_hash": "bytea", "task_id": "bigint"},
            "created_at": _TIME,
        },
        refs={"submitter_id": "users", "task_id": "tasks"},
        has_id=False,
        page="submitter_id",
    ),
)
BY_NAME: Final = {table.name: table for table in TABLES}

# The parameters of automatic actions that hold an id.
PARAMS: Final = {
    **{name: "columns" for name in ("column_id", "src_column_id", "dest_column_id")},
    **{name: "users" for name in ("user_id", "owner_id")},
    **{"category_id": "project_has_categories", "swimlane_id": "swimlanes", "project_id": "projects"},
}
