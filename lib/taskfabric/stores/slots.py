"""The slot table of schedules, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from taskfabric.db.pool import Connection, Database
from taskfabric.domain.schedule import Slot, SlotState

_COLUMNS: Final = "schedule, slot, state, reason, task_id"


class SlotStore:
    """Implements ``ports.slots.Slots``."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def cursor(self, schedule: str, begin: datetime) -> datetime:
        with self._db.transaction() as conn:
            conn.execute(
                "INSERT INTO schedules (name, cursor) VALUES (%s, %s) ON CONFLICT DO NOTHING", (schedule, begin)
            )
            row = conn.execute("SELECT cursor FROM schedules WHERE name = %s", (schedule,)).fetchone()
        assert row is not None
        found: datetime = row[0]
        return found

    def open(self, schedule: str, slots: Sequence[Slot], before: datetime, until: datetime) -> bool:
        def write(conn: Connection) -> bool:
            moved = conn.execute(
                "UPDATE schedules SET cursor = %s WHERE name = %s AND cursor = %s", (until, schedule, before)
            ).rowcount
            if not moved:
                return False
            for slot in slots:
                conn.execute(
                    f"INSERT INTO schedule_slots ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (schedule, slot.at, slot.state.value, slot.reason, slot.task_id),
                )
            return True

        return self._db.retrying(write)

    def settle(self, slot: Slot) -> None:
        with self._db.connection() as conn:
            conn.execute(
                "UPDATE schedule_slots SET state = %s, reason = %s, task_id = %s, at = fabric_now()"
                " WHERE schedule = %s AND slot = %s",
                (slot.state.value, slot.reason, slot.task_id, slot.schedule, slot.at),
            )

    def unsettled(self, schedule: str) -> list[Slot]:
        with self._db.connection() as conn:
            rows = conn.execute(
                f"SELECT {_COLUMNS} FROM schedule_slots WHERE schedule = %s AND state IN ('due', 'waiting')"
                " ORDER BY slot",
                (schedule,),
            ).fetchall()
        return [_slot(row) for row in rows]

    def running(self, schedule: str) -> bool:
        with self._db.connection() as conn:
            row = conn.execute(
                "SELECT EXISTS (SELECT FROM schedule_slots s JOIN tasks t ON t.id = s.task_id"
                " WHERE s.schedule = %s AND s.state = 'made' AND NOT fabric_finished(t.status))",
                (schedule,),
            ).fetchone()
        return row is not None and bool(row[0])

    def recent(self, limit: int) -> list[Slot]:
        with self._db.connection() as conn:
            rows = conn.execute(
                f"SELECT {_COLUMNS} FROM schedule_slots ORDER BY slot DESC, schedule LIMIT %s", (limit,)
            ).fetchall()
        return [_slot(row) for row in rows]


def _slot(row: tuple[Any, ...]) -> Slot:
    return Slot(schedule=row[0], at=row[1], state=SlotState(row[2]), reason=row[3], task_id=row[4])
