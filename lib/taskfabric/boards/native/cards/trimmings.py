"""What else hangs on a card: metadata, links to pages elsewhere, files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from taskfabric.boards.native.cards.faces import rows, seconds
from taskfabric.boards.native.cards.part import Part, tell
from taskfabric.boards.native.names import Connection
from taskfabric.domain.principal import Stamp
from taskfabric.ports.faces import Row

_LINK: Final = f"""
SELECT e.id, e.link_type, e.dependency, e.title, e.url, {seconds("e.date_creation")} AS date_creation,
       {seconds("e.date_modification")} AS date_modification, e.task_id, e.creator_id
"""
_LINK_FIELDS: Final = ("title", "url", "dependency")
_FILE: Final = f"""
SELECT m.id, m.name, 'tasks/' || m.task_id || '/' || m.sha256 AS path, m.task_id, {seconds("m.date")} AS date,
       m.user_id,       m.size, left(m.sha256, 32) AS etag
"""
_IMAGE: Final = re.compile(r"\.(?:jpe?g|png|gif)$", re.IGNORECASE)


class Metadata(Part):
    def metadata(self, task_id: int) -> dict[str, str]:
        with self._db.connection() as conn:
            found = conn.execute(
                "SELECT name, value FROM task_has_metadata WHERE task_id = %s ORDER BY name", (task_id,)
            ).fetchall()
        return {row[0]: row[1] for row in found}

    def save_metadata(self, task_id: int, values: Mapping[str, str], stamp: Stamp) -> None:
        def save(conn: Connection) -> None:
            tell(conn, task_id, "metadata-saved", stamp, {"names": sorted(values)})
            for name in sorted(values):
                conn.execute(
                    "INSERT INTO task_has_metadata (task_id, name, value) VALUES (%s, %s, %s)"
                    " ON CONFLICT (task_id, name) DO UPDATE SET value = EXCLUDED.value",
                    (task_id, name, values[name]),
                )

        self._write(save, task_id)

    def remove_metadata(self, task_id: int, name: str, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            gone = conn.execute("DELETE FROM task_has_metadata WHERE task_id = %s AND name = %s", (task_id, name))
            if not gone.rowcount:
                return False
            tell(conn, task_id, "metadata-removed", stamp, {"names": [name]})
            return True

        return self._write(remove, task_id)


class ExternalLinks(Part):
    def external_links(self, task_id: int) -> list[Row]:
        with self._db.connection() as conn:
            return rows(
                conn,
                f"{_LINK}, u.name AS creator_name, u.username AS creator_username"
                "  FROM task_has_external_links e LEFT JOIN users u ON u.id = e.creator_id"
                " WHERE e.task_id = %(task)s ORDER BY e.title, e.id",
                {"task": task_id},
            )

    def external_link(self, link_id: int) -> Row | None:
        with self._db.connection() as conn:
            found = rows(conn, f"{_LINK} FROM task_has_external_links e WHERE e.id = %(id)s", {"id": link_id})
        return found[0] if found else None

    def create_external_link(self, task_id: int, fields: Mapping[str, str], stamp: Stamp) -> int:
        def make(conn: Connection) -> int:
            row = conn.execute(
                "INSERT INTO task_has_external_links (task_id, link_type, dependency, title, url, creator_id)"
                " VALUES (%(task)s, %(link_type)s, %(dependency)s, %(title)s, %(url)s, %(me)s) RETURNING id",
                {**fields, "task": task_id, "me": stamp.principal_id},
            ).fetchone()
            assert row is not None
            tell(conn, task_id, "external-link-created", stamp, {"link": row[0]})
            return int(row[0])

        return self._write(make, task_id)

    def update_external_link(self, link_id: int, fields: Mapping[str, str], stamp: Stamp) -> bool:
        assert set(fields) <= set(_LINK_FIELDS)

        def change(conn: Connection) -> bool:
            put = "".join(f", {name} = %({name})s" for name in fields)
            row = conn.execute(
                f"UPDATE task_has_external_links SET date_modification = fabric_now(){put} WHERE id = %(id)s"
                " RETURNING task_id",
                {**fields, "id": link_id},
            ).fetchone()
            if row is None:
                return False
            tell(conn, row[0], "external-link-changed", stamp, {"link": link_id})
            return True

        return self._write(change)

    def remove_external_link(self, link_id: int, stamp: Stamp) -> bool:
        def remove(conn: Connection) -> bool:
            row = conn.execute(
                "DELETE FROM task_has_external_links WHERE id = %s RETURNING task_id", (link_id,)
            ).fetchone()
            if row is None:
                return False
            tell(conn, row[0], "external-link-removed", stamp, {"link": link_id})
            return True

        return self._write(remove)


class TaskFiles(Part):
    def files(self, task_id: int) -> list[Row]:
        with self._db.connection() as conn:
            found = rows(
                conn,
                f"{_FILE}, u.username, u.name AS user_name FROM task_has_files m LEFT JOIN users u ON u.id = m.user_id"
                " WHERE m.task_id = %(task)s ORDER BY m.name, m.id",
                {"task": task_id},
            )
        return [_with_kind(row) for row in found]

    def file(self, file_id: int) -> Row | None:
        with self._db.connection() as conn:
            found = rows(conn, f"{_FILE} FROM task_has_files m WHERE m.id = %(id)s", {"id": file_id})
        return _with_kind(found[0]) if found else None

    def remove_file(self, file_id: int, stamp: Stamp) -> bool:
        """The bytes stay in the store: others may have the same."""

        def remove(conn: Connection) -> bool:
            row = conn.execute(
                "DELETE FROM task_has_files WHERE id = %s RETURNING task_id, name", (file_id,)
            ).fetchone()
            if row is None:
                return False
            tell(conn, row[0], "file-removed", stamp, {"file": file_id, "name": row[1]})
            return True

        return self._write(remove)


def _with_kind(row: Row) -> Row:
    row["is_image"] = int(_IMAGE.search(str(row["name"])) is not None)
    return row
