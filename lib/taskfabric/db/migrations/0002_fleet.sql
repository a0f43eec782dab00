-- The fleet: what is not a task. Accounts whose quota a provider limits, what was spent of it, agents that a human has
-- paused, what workers say of themselves, and the output of runs.

-- An account may serve several agent cards; what a provider says about it holds for all of them. Several processes
-- change a row, each while it holds it FOR UPDATE.
CREATE TABLE accounts (
    name text PRIMARY KEY,
    closed_until timestamptz,                   -- null = open; with the jitter
    closed_since timestamptz,
    is_known boolean NOT NULL DEFAULT false,    -- the provider named the reset; else closed_until is when to try
    quota_window text NOT NULL DEFAULT '',
    evidence text NOT NULL DEFAULT '',          -- the provider's words
    probes integer NOT NULL DEFAULT 0,          -- tries since it was closed without a known reset
    prober text NOT NULL DEFAULT '',            -- the worker that tries now
    probe_until timestamptz,
    warned_until timestamptz,                   -- no background work until then
    overloads integer NOT NULL DEFAULT 0,       -- in a row
    is_told boolean NOT NULL DEFAULT false      -- a human was told that it stays closed
);

-- One row a run: reserved before it starts, settled after it. What was reserved and never settled counts as spent.
CREATE TABLE spendings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text NOT NULL,
    user_id integer NOT NULL REFERENCES users,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    task_id bigint,
    epoch bigint,
    is_interactive boolean NOT NULL DEFAULT false,
    is_settled boolean NOT NULL DEFAULT false,
    units integer NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    cents bigint NOT NULL DEFAULT 0,
    usage jsonb
);
CREATE INDEX spendings_account ON spendings (account, at);

CREATE TABLE pauses (
    name text PRIMARY KEY,                      -- of the agent card
    until timestamptz,                          -- null = until resumed
    note text NOT NULL DEFAULT '',
    by_id integer NOT NULL REFERENCES users,
    at timestamptz NOT NULL DEFAULT fabric_now()
);

CREATE TABLE worker_reports (
    user_id integer NOT NULL REFERENCES users,
    instance text NOT NULL,
    state text NOT NULL CHECK (state IN ('idle', 'running', 'closed', 'draining', 'gone')),
    since timestamptz NOT NULL DEFAULT fabric_now(),
    seen timestamptz NOT NULL DEFAULT fabric_now(),
    reason text NOT NULL DEFAULT '',
    until timestamptz,
    running integer NOT NULL DEFAULT 0,
    facts jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (user_id, instance)
);

-- The output of runs, kept for a while. No foreign key: it is written often and lost without harm.
CREATE TABLE chunks (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    n bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    stream text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (task_id, epoch, n)
);
CREATE INDEX chunks_at ON chunks (at);
