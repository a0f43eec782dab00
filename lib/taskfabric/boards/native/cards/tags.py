"""Tags: a project's list of names, and people's tags on a task. The reserved ones are bits of the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskfabric.boards.native.cards import words
from taskfabric.boards.native.cards.faces import SEEN_ANYWHERE, rows, through
from taskfabric.boards.native.cards.part import Part
from taskfabric.boards.native.layout import journal
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Stamp, Viewer
from taskfabric.ports.faces import Row

# A tag that only cards have which the viewer may not see would tell of them.
_LIST: Final = f"""
SELECT g.id, g.name, g.project_id, g.color_id FROM tags g
 WHERE (%(project)s::int IS NULL OR g.project_id IN (0, %(project)s))
   AND (%(me)s::int IS NULL OR NOT EXISTS (SELECT FROM task_has_tags h WHERE h.tag_id = g.id)
        OR EXISTS (SELECT FROM task_has_tags h JOIN tasks t ON t.id = h.task_id
                    WHERE h.tag_id = g.id AND {SEEN_ANYWHERE}))
 ORDER BY g.name, g.id
"""


class Tags(Part):
    def tags(self, project_id: int | None, viewer: Viewer | None) -> list[Row]:
        with self._db.connection() as conn:
            return rows(conn, _LIST, {"project": project_id, **through(viewer)})

    def tagged(self, tag_id: int) -> list[int]:
        with self._db.connection() as conn:
            found = conn.execute("SELECT task_id FROM task_has_tags WHERE tag_id = %s ORDER BY task_id", (tag_id,))
            return [row[0] for row in found.fetchall()]

    def tags_of_task(self, task_id: int) -> list[tuple[int, str]]:
        with self._db.connection() as conn:
            found = conn.execute(
                "SELECT g.id, g.name FROM task_has_tags h JOIN tags g ON g.id = h.tag_id WHERE h.task_id = %s"
                " ORDER BY g.name, g.id",
                (task_id,),
            ).fetchall()
        return [(row[0], row[1]) for row in found]

    def create_tag(self, project_id: int, name: str, color_id: str | None, stamp: Stamp) -> int | None:
        def make(conn: Connection) -> int | None:
            row = conn.execute(
                "INSERT INTO tags (project_id, name, color_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING id",
                (project_id, name, color_id),
            ).fetchone()
            if row is None:
                return None
            journal(conn, "tag-created", project_id, stamp, {"tag": row[0], "name": name})
            return int(row[0])

        return self._db.retrying(make)

    def update_tag(self, tag_id: int, name: str, color_id: str | None, stamp: Stamp) -> bool:
        def rename(conn: Connection) -> bool:
            row = conn.execute(
                "UPDATE tags SET name = %s, color_id = %s WHERE id = %s RETURNING project_id", (name, color_id, tag_id)
            ).fetchone()
            if row is None:
                return False
            journal(conn, "tag-changed", row[0], stamp, {"tag": tag_id, "name": name})
            return True

        return self._try(rename)

    def remove_tag(self, tag_id: int, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            row = conn.execute("DELETE FROM tags WHERE id = %s RETURNING project_id, name", (tag_id,)).fetchone()
            if row is None:
                return False
            journal(conn, "tag-removed", row[0], stamp, {"tag": tag_id, "name": row[1]})
            return True

        return self._write(remove)

    def set_tags(self, task_id: int, names: Sequence[str], stamp: Stamp) -> None:
        self._write(lambda conn: words.set_tags(conn, self._names, task_id, names, stamp), task_id)
