-- Moving in and out: what a board is called when it moves, and what of another one has come already.

CREATE TABLE identity (
    id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO identity DEFAULT VALUES;

-- A second run of the same import makes nothing twice, and goes on where the first one stopped.
CREATE TABLE moved (
    source text NOT NULL,                       -- the address of a Kanboard, or the identity of another fabric
    tbl text NOT NULL,
    theirs bigint NOT NULL,
    ours bigint NOT NULL,
    PRIMARY KEY (source, tbl, theirs)
);
CREATE INDEX moved_ours ON moved (tbl, ours);
