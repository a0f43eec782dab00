"""Comments as Kanboard's clients read and write them; a line of the fabric's own is rendered, and never changed."""

from __future__ import annotations

from typing import Any, Final

from taskfabric.boards.native.cards.faces import rows, seconds
from taskfabric.boards.native.cards.one_row import EVENT, RETURNING, by
from taskfabric.boards.native.cards.part import Part, tell
from taskfabric.boards.native.names import Connection
from taskfabric.boards.native.read import line_of
from taskfabric.domain.comments import LineKind, render
from taskfabric.domain.errors import not_found
from taskfabric.domain.principal import Stamp
from taskfabric.ports.faces import Row
from taskfabric.ports.signal import Change

_COMMENT: Final = f"""
SELECT m.id, m.task_id, m.user_id, {seconds("m.date_creation")} AS date_creation,
       {seconds("coalesce(m.date_modification, m.date_creation)")} AS date_modification, m.text AS comment, m.reference,
       m.visibility, u.username, u.name, u.email, NULL::text AS avatar_path,
       m.kind, m.epoch, m.number, m.number_of, m.instance, m.date_creation AS at,
       CASE WHEN m.kind = 'claimed' AND m.epoch = t.epoch THEN coalesce(t.lease_until, m.until)
            ELSE m.until END AS until
  FROM comments m JOIN tasks t ON t.id = m.task_id LEFT JOIN users u ON u.id = m.user_id
"""


def _shown(row: Row) -> Row:
    """The row as clients get it: a line of the grammar is said in words."""
    own: dict[str, Any] = {
        name: row.pop(name) for name in ("kind", "epoch", "number", "number_of", "instance", "at", "until")
    }
    if own["kind"]:
        line = line_of(
            LineKind(own["kind"]),
            str(row["username"] or ""),
            own["at"],
            str(row["comment"]),
            own["epoch"],
            own["until"],
            own["number"],
            own["number_of"],
            own["instance"],
        )
        row["comment"] = render(line)
    return row


_SAY: Final = f"""
WITH u AS (
    UPDATE tasks t SET seq = seq + 1, told = greatest(told, pg_current_xact_id()) WHERE t.id = %(task)s {RETURNING}
), m AS (
    INSERT INTO comments (task_id, user_id, text, reference, visibility)
    SELECT u.id, %(actor)s, %(text)s, %(reference)s, %(visibility)s FROM u RETURNING id
), j AS ({EVENT} jsonb_build_object('comment', m.id) FROM u, m)
SELECT id FROM m
"""


class Remarks(Part):
    def comment(self, comment_id: int) -> Row | None:
        with self._db.connection() as conn:
            found = rows(conn, f"{_COMMENT} WHERE m.id = %(id)s", {"id": comment_id})
        return _shown(found[0]) if found else None

    def comments(self, task_id: int) -> list[Row]:
        with self._db.connection() as conn:
            found = rows(
                conn,
                f"{_COMMENT} WHERE m.task_id = %(id)s ORDER BY date_trunc('second', m.date_creation), m.id",
                {"id": task_id},
            )
        for row in found:
            _shown(row).pop("reference")
        return found

    def create_comment(self, task_id: int, text: str, reference: str, visibility: str, stamp: Stamp) -> int:
        said = {"task": task_id, "text": text, "reference": reference, "visibility": visibility}
        with self._db.connection() as conn:
            row = conn.execute(_SAY, {**by(stamp, "commented"), **said}).fetchone()
        if row is None:
            raise not_found("task")
        self._signal.publish(Change(task_id=task_id))
        return int(row[0])

    def update_comment(self, comment_id: int, text: str, stamp: Stamp) -> bool:
        def change(conn: Connection) -> bool:
            row = conn.execute(
                "UPDATE comments SET text = %s, date_modification = fabric_now() WHERE id = %s AND kind = ''"
                " RETURNING task_id",
                (text, comment_id),
            ).fetchone()
            if row is None:
                return False
            tell(conn, row[0], "comment-changed", stamp, {"comment": comment_id})
            return True

        return self._write(change)

    def remove_comment(self, comment_id: int, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            row = conn.execute(
                "DELETE FROM comments WHERE id = %s AND kind = '' RETURNING task_id", (comment_id,)
            ).fetchone()
            if row is None:
                return False
            tell(conn, row[0], "comment-removed", stamp, {"comment": comment_id})
            return True

        return self._write(remove)
