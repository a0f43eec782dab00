-- A stock Kanboard as the board. The card there is the task; the row in `tasks` is its reflection, together with what a
-- card has no place for: provenance, submissions, journal. Projects, columns, swimlanes and tasks have Kanboard's ids.

-- What the fabric last wrote to a card, or read from it: where the card says something else now, a person has changed it.
CREATE TABLE stock_cards (
    task_id bigint PRIMARY KEY,
    seen jsonb NOT NULL,                        -- the card's face
    seq integer NOT NULL,                       -- the task's events up to which the card is in line
    comment_id bigint NOT NULL DEFAULT 0,       -- our comments up to which they are on the card
    moved_from integer,                         -- the column from which we moved it last, and when
    moved_at timestamptz,
    gone boolean NOT NULL DEFAULT false         -- the card was removed
);

-- Tasks whose cards must be brought in line: written by the verb's own transaction, removed when the card is right.
CREATE TABLE stock_dirty (
    task_id bigint PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- Every lease that won its tag in the locks project. `ended` once the tag that ends it is there as well.
CREATE TABLE stock_leases (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    token bigint NOT NULL,
    tag_id bigint NOT NULL,
    user_id integer NOT NULL,
    at timestamptz NOT NULL DEFAULT statement_timestamp(),
    ended boolean NOT NULL DEFAULT false,
    PRIMARY KEY (task_id, epoch)
);
CREATE INDEX stock_leases_live ON stock_leases (task_id) WHERE NOT ended;

-- Which comment of a card is which of ours. Kanboard on SQLite gives the ids of removed comments anew.
CREATE TABLE stock_comments (
    task_id bigint NOT NULL,
    card_comment_id bigint NOT NULL,
    comment_id bigint NOT NULL,
    PRIMARY KEY (task_id, card_comment_id)
);
