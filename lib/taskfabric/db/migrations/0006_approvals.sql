-- Approvals, standing grants, who is away, web sessions. Nothing here is a task: the gate in a human's inbox is one, and
-- names no decision; this table does.

-- A request for a decision. Only `pending` moves, by one guarded statement; time leads to `expired` and nowhere else.
CREATE TABLE approvals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN
        ('pending', 'approved', 'edited-approved', 'denied', 'expired', 'superseded', 'withdrawn')),
    action text NOT NULL,
    args text NOT NULL,                         -- canonical JSON; text, so that the hash of it stays what it is
    hash text NOT NULL,                         -- of action, level and args
    level smallint NOT NULL CHECK (level BETWEEN 2 AND 3),
    requester_id integer NOT NULL REFERENCES users,
    why text NOT NULL DEFAULT '',
    recipient text,
    amount float8,
    label text NOT NULL DEFAULT 'household',
    task_id bigint,                             -- the task that waits; null = asked outside any run
    task_epoch bigint,
    gate_id bigint,                             -- the task in the human's inbox
    created timestamptz NOT NULL DEFAULT fabric_now(),
    expires timestamptz NOT NULL,
    decided_by integer REFERENCES users,
    decided_at timestamptz,
    decided_args text,
    decided_hash text,
    for_whom integer REFERENCES users,          -- a delegated decision: whose it was
    note text NOT NULL DEFAULT '',
    via text,
    use_until timestamptz,
    consumed_at timestamptz,
    grant_id bigint,
    reminded smallint NOT NULL DEFAULT 0,       -- per cent of its time
    is_told boolean NOT NULL DEFAULT false,     -- gate and waiting task know how it ended
    CHECK ((decided_by IS NOT NULL) = (state IN ('approved', 'edited-approved', 'denied'))),
    CHECK (decided_by IS DISTINCT FROM requester_id),
    CHECK (consumed_at IS NULL OR state IN ('approved', 'edited-approved'))
);
-- One request is asked once at a time, however often it is repeated.
CREATE UNIQUE INDEX approvals_once ON approvals (requester_id, coalesce(task_id, 0), hash) WHERE state = 'pending';
CREATE INDEX approvals_pending ON approvals (expires) WHERE state = 'pending';
CREATE INDEX approvals_untold ON approvals (id) WHERE state <> 'pending' AND NOT is_told;
CREATE INDEX approvals_task ON approvals (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX approvals_gate ON approvals (gate_id) WHERE gate_id IS NOT NULL;
CREATE INDEX approvals_requester ON approvals (requester_id, action, id);

CREATE TABLE approval_deciders (
    approval_id bigint NOT NULL REFERENCES approvals ON DELETE CASCADE,
    user_id integer NOT NULL REFERENCES users,
    how text NOT NULL CHECK (how IN ('asked', 'delegated', 'escalated')),
    for_whom integer REFERENCES users,
    since timestamptz NOT NULL DEFAULT fabric_now(),
    until timestamptz,                          -- a vacation's end; null = as long as it is pending
    PRIMARY KEY (approval_id, user_id)
);
CREATE INDEX approval_deciders_user ON approval_deciders (user_id, approval_id);

CREATE TABLE grants (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    grantor_id integer NOT NULL REFERENCES users,
    agent_id integer NOT NULL REFERENCES users,
    action text NOT NULL,
    recipient text,                             -- null = any
    created timestamptz NOT NULL DEFAULT fabric_now(),
    until timestamptz NOT NULL,
    revoked_at timestamptz,
    used integer NOT NULL DEFAULT 0,
    CHECK (grantor_id <> agent_id)
);
CREATE INDEX grants_agent ON grants (agent_id) WHERE revoked_at IS NULL;

-- The policy files that an administrator has accepted; the latest counts. None = the one that ships.
CREATE TABLE policies (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text text NOT NULL,
    by_id integer NOT NULL REFERENCES users,
    at timestamptz NOT NULL DEFAULT fabric_now()
);

-- People --------------------------------------------------------------------------------------------------------

CREATE TABLE absences (
    user_id integer PRIMARY KEY REFERENCES users,
    until timestamptz NOT NULL,
    to_id integer REFERENCES users,             -- who decides meanwhile
    note text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT fabric_now(),
    CHECK (to_id <> user_id)
);

CREATE TABLE user_settings (
    user_id integer PRIMARY KEY REFERENCES users,
    quiet_begin time,                           -- in his own zone; both or neither
    quiet_end time,
    CHECK ((quiet_begin IS NULL) = (quiet_end IS NULL))
);

CREATE TABLE snoozes (
    user_id integer NOT NULL REFERENCES users,
    task_id bigint NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (user_id, task_id)
);

-- A browser that is signed in. `is_proven`: by the PIN or a sign-in link, so that it may decide.
CREATE TABLE sessions (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id integer NOT NULL REFERENCES users,
    hash bytea NOT NULL UNIQUE,                 -- sha256 of a secret with 256 random bits
    is_proven boolean NOT NULL,
    agent text NOT NULL DEFAULT '',             -- what the browser calls itself
    created timestamptz NOT NULL DEFAULT fabric_now(),
    seen timestamptz NOT NULL DEFAULT fabric_now(),
    expires timestamptz NOT NULL,               -- whatever is done with it
    revoked_at timestamptz
);
CREATE INDEX sessions_user ON sessions (user_id);

CREATE TABLE sign_in_links (
    hash bytea PRIMARY KEY,
    user_id integer NOT NULL REFERENCES users,
    made_by integer NOT NULL REFERENCES users,
    is_proven boolean NOT NULL,                 -- what its session is worth
    expires timestamptz NOT NULL,
    used_at timestamptz
);
