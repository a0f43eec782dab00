-- What the keeper, the schedules and the notifications remember. Nothing here is a task.

-- One of several keepers (or crons) has the turn; the others look on until it ends. `began` starts anew after a gap.
CREATE TABLE turns (
    name text PRIMARY KEY,
    instance text NOT NULL,
    until timestamptz NOT NULL,
    last_round timestamptz NOT NULL
);

-- What the keeper looks for, and what is rare.
CREATE INDEX tasks_dead ON tasks (id) WHERE status = 'dead' AND is_active;
CREATE INDEX tasks_waiting ON tasks (id) WHERE status = 'waiting' AND is_active;
CREATE INDEX task_has_links_open ON task_has_links (opposite_task_id, task_id) WHERE link_id = 3 AND state = 'open';

-- What was told about a task, each thing once. `occasion` tells one overdue date, question or death from the next.
CREATE TABLE told (
    task_id bigint NOT NULL REFERENCES tasks ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('overdue', 'dead', 'question')),
    occasion text NOT NULL,
    level smallint NOT NULL,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    PRIMARY KEY (task_id, kind, occasion, level)
);

-- One digest for each human and day of his own calendar.
CREATE TABLE digests (
    user_id integer NOT NULL REFERENCES users,
    day date NOT NULL,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    PRIMARY KEY (user_id, day)
);

-- Schedules (G12). The cursor moves only where slots are written, in the same transaction; reading changes nothing.
CREATE TABLE schedules (
    name text PRIMARY KEY,
    cursor timestamptz NOT NULL                 -- every slot up to here has its row
);
CREATE TABLE schedule_slots (
    schedule text NOT NULL,
    slot timestamptz NOT NULL,                  -- the instant that the schedule named, in UTC
    state text NOT NULL CHECK (state IN ('due', 'made', 'missed', 'skipped', 'waiting')),
    reason text NOT NULL DEFAULT '',
    task_id bigint,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    PRIMARY KEY (schedule, slot)
);
CREATE INDEX schedule_slots_open ON schedule_slots (schedule, slot) WHERE state IN ('due', 'waiting');

-- Letters to people, written from the journal and delivered by the server.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id integer NOT NULL REFERENCES users,
    event_id bigint,                            -- the journal's event that it tells of; null = a digest
    task_id bigint,
    reason text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'failed')),
    attempts smallint NOT NULL DEFAULT 0,
    due timestamptz NOT NULL DEFAULT fabric_now(),
    created timestamptz NOT NULL DEFAULT fabric_now(),
    sent timestamptz,
    error text NOT NULL DEFAULT '',
    UNIQUE (user_id, event_id, task_id)
);
CREATE INDEX outbox_pending ON outbox (due) WHERE state = 'pending';
CREATE UNIQUE INDEX outbox_gate ON outbox (user_id, task_id) WHERE reason = 'gate';  -- however many wait for it
CREATE INDEX outbox_user ON outbox (user_id, id);

-- How far the journal was read for letters. What happened before this table existed is told to nobody.
CREATE TABLE outbox_cursor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    xid xid8 NOT NULL,
    id bigint NOT NULL
);
INSERT INTO outbox_cursor (xid, id) VALUES (pg_snapshot_xmin(pg_current_snapshot()), 0);
