"""The baseline: psycopg and ``FOR UPDATE SKIP LOCKED``, two transactions a task, no lease, no fence, no event.

``leased`` adds lease and fence columns and one event row a transition: the least that a product with leases and an
audit trail must do. ``tens`` takes and finishes ten rows at a time.
"""

from __future__ import annotations

from typing import Final

import psycopg

from tests.bench.ruler import Slot
from tests.bench.system import System

_DDL: Final = """
CREATE TABLE task (id bigserial PRIMARY KEY, status smallint NOT NULL DEFAULT 0, priority int NOT NULL DEFAULT 0,
  ident bigint, submitted double precision, worker text, lease_until timestamptz, fence bigint NOT NULL DEFAULT 0,
  attempts int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), done_at timestamptz);
CREATE INDEX task_ready ON task (priority DESC, id) WHERE status = 0;
CREATE INDEX task_lease ON task (lease_until) WHERE status = 1;
CREATE TABLE event (id bigserial PRIMARY KEY, task_id bigint NOT NULL, kind text NOT NULL, fence bigint, who text,
  at timestamptz NOT NULL DEFAULT now());
CREATE INDEX event_task ON event (task_id);
CREATE FUNCTION wake() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('task_new', ''); RETURN NULL; END $$;
CREATE TRIGGER task_wake AFTER INSERT ON task FOR EACH STATEMENT EXECUTE FUNCTION wake();
"""
_PICK: Final = "SELECT id FROM task WHERE status = 0 ORDER BY priority DESC, id LIMIT {n} FOR UPDATE SKIP LOCKED"
_CLAIM: Final = {
    "plain": "UPDATE task SET status = 1, worker = %s, attempts = attempts + 1"
    f" WHERE id = ({_PICK.format(n=1)}) RETURNING id, fence, submitted",
    "tens": "UPDATE task SET status = 1, worker = %s, attempts = attempts + 1"
    f" WHERE id = ANY(ARRAY({_PICK.format(n=10)})) RETURNING id, fence, submitted",
    "leased": "WITH c AS (UPDATE task SET status = 1, worker = %s, attempts = attempts + 1, fence = fence + 1,"
    f" lease_until = now() + interval '60 s' WHERE id = ({_PICK.format(n=1)}) RETURNING id, fence, submitted),"
    " e AS (INSERT INTO event (task_id, kind, fence, who) SELECT id, 'claim', fence, 'w' FROM c)"
    " SELECT id, fence, submitted FROM c",
}
_DONE: Final = {
    "plain": "UPDATE task SET status = 2, done_at = now() WHERE id = %s AND status = 1",
    "tens": "UPDATE task SET status = 2, done_at = now() WHERE id = ANY(%s) AND status = 1",
    "leased": "WITH c AS (UPDATE task SET status = 2, done_at = now(), lease_until = NULL"
    " WHERE id = %s AND status = 1 AND fence = %s RETURNING id, fence)"
    " INSERT INTO event (task_id, kind, fence, who) SELECT id, 'done', fence, 'w' FROM c",
}


class Raw(System):
    """One table and two statements."""

    def __init__(self, variant: str = "plain") -> None:
        self.variant = variant
        self.name = "raw" if variant == "plain" else f"raw_{variant}"
        self.claim_sql, self.done_sql = _CLAIM[variant], _DONE[variant]

    def setup(self) -> None:
        self.fresh()
        self.run(_DDL)

    def clear(self) -> None:
        self.run("TRUNCATE task, event RESTART IDENTITY")

    def fill(self, n: int) -> None:
        self.run(f"INSERT INTO task (ident, submitted) SELECT g, 0 FROM generate_series(1, {n}) g")

    def open_client(self) -> None:
        self.client = psycopg.connect(self.dsn, autocommit=True)

    def close_client(self) -> None:
        self.client.close()

    def submit(self, submitted: float) -> None:
        self.client.execute("INSERT INTO task (ident, submitted) VALUES (1, %s)", (submitted,))

    def submit_many(self, n: int) -> None:
        with (
            self.client.transaction(),
            self.client.cursor() as cursor,
            cursor.copy("COPY task (ident, submitted) FROM STDIN") as copy,
        ):
            for i in range(n):
                copy.write_row((i, 0.0))

    def work_off(self, n: int) -> None:
        """``n`` tasks are claimed and finished, ten at a time."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            done = 0
            while done < n:
                rows = conn.execute(_CLAIM["tens"], ("w",)).fetchall()
                conn.execute(_DONE["tens"], ([row[0] for row in rows],))
                done += len(rows)

    def claim_one(self) -> None:
        """One task is claimed."""
        if self.client.execute(_CLAIM["plain"], ("w",)).fetchone() is None:
            raise RuntimeError("nothing was left to claim")

    def work(self, slot: Slot) -> None:
        conn = psycopg.connect(self.dsn, autocommit=True)
        conn.execute("LISTEN task_new")
        slot.ready()
        while not slot.stopping:
            rows = conn.execute(self.claim_sql, ("w",)).fetchall()
            if not rows:
                for _ in conn.notifies(timeout=0.2, stop_after=1):
                    pass
                continue
            slot.taken(rows[0][2])
            match self.variant:
                case "tens":
                    conn.execute(self.done_sql, ([row[0] for row in rows],))
                case "leased":
                    conn.execute(self.done_sql, rows[0][:2])
                case _:
                    conn.execute(self.done_sql, rows[0][:1])
            slot.done(len(rows))
