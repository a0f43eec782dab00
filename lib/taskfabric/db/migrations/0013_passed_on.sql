-- Questions that somebody answers in another's place, until when; then they are that one's again. One run asks once, so
-- the epoch names the question.
CREATE TABLE passed_on (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    by_id integer NOT NULL REFERENCES users,
    to_id integer NOT NULL REFERENCES users,
    until timestamptz NOT NULL,
    PRIMARY KEY (task_id, epoch)
);
CREATE INDEX passed_on_until ON passed_on (until);
