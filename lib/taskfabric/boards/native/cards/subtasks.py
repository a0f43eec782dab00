"""Subtasks and the timers that run on them; the task's own hours are the sums of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskfabric.boards.native.cards.faces import rows, seconds
from taskfabric.boards.native.cards.part import Part, tell
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Stamp
from taskfabric.ports.faces import Row

_ROW: Final = "b.id, b.title, b.status, b.time_estimated, b.time_spent, b.task_id, b.user_id, b.position"
_STATUS_NAMES: Final = ("Todo", "In progress", "Done")
_FIELDS: Final = ("title", "status", "time_estimated", "time_spent", "user_id", "position")
_SUMS: Final = """
INSERT INTO task_faces (task_id, time_spent, time_estimated)
SELECT %(task)s, sum(time_spent), sum(time_estimated) FROM subtasks WHERE task_id = %(task)s
ON CONFLICT (task_id) DO UPDATE SET time_spent = EXCLUDED.time_spent, time_estimated = EXCLUDED.time_estimated
"""
_LIST: Final = f"""
SELECT {_ROW}, u.username, u.name, coalesce((SELECT {seconds("r.started")} FROM subtask_time_tracking r
        WHERE r.subtask_id = b.id AND r.user_id = %(me)s AND r.ended IS NULL), 0) AS timer_start_date
  FROM subtasks b LEFT JOIN users u ON u.id = b.user_id AND b.user_id <> 0 WHERE b.task_id = %(task)s
 ORDER BY b.position, b.id
"""
_HOURS: Final = "round((date_part('epoch', fabric_now() - started) / 3600)::numeric, 2)::double precision"


def listed(conn: Connection, task_id: int, timer_of: int) -> list[Row]:
    """The subtasks of a task, with the timer of one user."""
    found = rows(conn, _LIST, {"task": task_id, "me": timer_of})
    for row in found:
        status = row["status"]
        row["status_name"] = _STATUS_NAMES[status] if isinstance(status, int) else ""
        row["is_timer_started"] = bool(row["timer_start_date"])
    return found


class Subtasks(Part):
    def subtask(self, subtask_id: int) -> Row | None:
        with self._db.connection() as conn:
            found = rows(conn, f"SELECT {_ROW} FROM subtasks b WHERE b.id = %(id)s", {"id": subtask_id})
        return found[0] if found else None

    def subtasks(self, task_id: int, timer_of: int) -> list[Row]:
        with self._db.connection() as conn:
            return listed(conn, task_id, timer_of)

    def create_subtask(self, task_id: int, fields: Mapping[str, object], stamp: Stamp) -> int:
        def make(conn: Connection) -> int:
            conn.execute("SELECT 1 FROM tasks WHERE id = %s FOR NO KEY UPDATE", (task_id,))
            row = conn.execute(
                "INSERT INTO subtasks (task_id, title, status, time_estimated, time_spent, user_id, position)"
                " VALUES (%(task)s, %(title)s, %(status)s, %(time_estimated)s, %(time_spent)s, %(user_id)s,"
                " (SELECT coalesce(max(position), 0) + 1 FROM subtasks WHERE task_id = %(task)s)) RETURNING id",
                {"task": task_id, **fields},
            ).fetchone()
            assert row is not None
            conn.execute(_SUMS, {"task": task_id})
            tell(conn, task_id, "subtask-created", stamp, {"subtask": row[0]})
            return int(row[0])

        return self._write(make, task_id)

    def update_subtask(self, subtask_id: int, task_id: int, fields: Mapping[str, object], stamp: Stamp) -> bool:
        assert set(fields) <= set(_FIELDS)

        def change(conn: Connection) -> bool:
            put = "".join(f", {name} = %({name})s" for name in fields)
            found = conn.execute(
                f"UPDATE subtasks SET task_id = task_id{put} WHERE id = %(id)s AND task_id = %(task)s",
                {"id": subtask_id, "task": task_id, **fields},
            ).rowcount
            if not found:
                return False
            conn.execute(_SUMS, {"task": task_id})
            tell(conn, task_id, "subtask-changed", stamp, {"subtask": subtask_id})
            return True

        return self._write(change, task_id)

    def remove_subtask(self, subtask_id: int, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            row = conn.execute("DELETE FROM subtasks WHERE id = %s RETURNING task_id", (subtask_id,)).fetchone()
            if row is None:
                return False
            conn.execute(_SUMS, {"task": row[0]})
            tell(conn, row[0], "subtask-removed", stamp, {"subtask": subtask_id})
            return True

        return self._write(remove)

    # -- timers --------------------------------------------------------------------------------------

    def has_timer(self, subtask_id: int, user_id: int) -> bool:
        with self._db.connection() as conn:
            row = conn.execute(
                "SELECT 1 FROM subtask_time_tracking WHERE subtask_id = %s AND user_id = %s AND ended IS NULL",
                (subtask_id, user_id),
            ).fetchone()
        return row is not None

    def start_timer(self, subtask_id: int, user_id: int, stamp: Stamp) -> bool:
        def start(conn: Connection) -> bool:
            return bool(
                conn.execute(
                    "INSERT INTO subtask_time_tracking (subtask_id, user_id) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (subtask_id, user_id),
                ).rowcount
            )

        return self._write(start)

    def stop_timer(self, subtask_id: int, user_id: int, stamp: Stamp) -> bool:
        def stop(conn: Connection) -> bool:
            row = conn.execute(
                f"UPDATE subtask_time_tracking SET ended = fabric_now(), time_spent = {_HOURS}"
                " WHERE subtask_id = %s AND user_id = %s AND ended IS NULL RETURNING time_spent",
                (subtask_id, user_id),
            ).fetchone()
            if row is None:
                return False
            task = conn.execute(
                "UPDATE subtasks SET time_spent = time_spent + %s WHERE id = %s RETURNING task_id", (row[0], subtask_id)
            ).fetchone()
            if task is not None:
                conn.execute(_SUMS, {"task": task[0]})
                tell(conn, task[0], "subtask-changed", stamp, {"subtask": subtask_id})
            return True

        return self._write(stop)

    def timed(self, subtask_id: int, user_id: int) -> float:
        with self._db.connection() as conn:
            row = conn.execute(
                f"SELECT {_HOURS} FROM subtask_time_tracking WHERE subtask_id = %s AND user_id = %s AND ended IS NULL",
                (subtask_id, user_id),
            ).fetchone()
        return 0.0 if row is None else float(row[0])
