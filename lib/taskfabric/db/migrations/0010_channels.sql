-- Where people want their letters, beside what notify.toml says. An address is a secret: sealed with the key of the home.
CREATE TABLE channels (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id integer NOT NULL REFERENCES users,
    shown text NOT NULL,                        -- the address without what is secret in it
    sealed bytea NOT NULL,
    created timestamptz NOT NULL DEFAULT fabric_now()
);
CREATE INDEX channels_user ON channels (user_id, id);

-- The addresses that have taken a letter while others have not: it is not sent to them again. Hashes, with the letter's
-- number in them.
ALTER TABLE outbox ADD COLUMN taken text[] NOT NULL DEFAULT '{}';
