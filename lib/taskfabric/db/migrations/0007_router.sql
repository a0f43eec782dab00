-- What providers say of their windows by themselves, in the headers of ordinary answers.

-- The latest word about each window of an account; it counts until the window's reset.
CREATE TABLE learned_limits (
    account text NOT NULL,
    quota_window text NOT NULL,                 -- five_hour, weekly, tokens a minute, …
    used real NOT NULL,                         -- 0 to 1
    amount bigint,                              -- the limit in the provider's own unit; null = it gave only a share
    reset timestamptz,
    seen timestamptz NOT NULL DEFAULT fabric_now(),
    PRIMARY KEY (account, quota_window)
);

-- An end that makes a task of another queue claimable wakes those who wait there: it is announced with the end itself.
CREATE OR REPLACE FUNCTION fabric_carry_end(p_task bigint, p_was text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE row tasks;
BEGIN
    SELECT * INTO STRICT row FROM tasks WHERE id = p_task;
    IF row.parent_id IS NOT NULL AND fabric_finished(p_was) <> fabric_finished(row.status) THEN
        PERFORM fabric_tell_parent(row, CASE WHEN fabric_finished(row.status) THEN -1 ELSE 1 END);
        PERFORM pg_notify('fabric', 'q:' || t.project_id) FROM tasks t
          WHERE t.id = row.parent_id AND t.status = 'ready' AND t.open_blockers = 0 AND NOT t.delayed;
    END IF;
    IF row.dependents > 0 THEN
        PERFORM fabric_release_dependents(row);
        PERFORM pg_notify('fabric', 'q:' || q.project_id) FROM (
            SELECT DISTINCT t.project_id FROM task_has_links l JOIN tasks t ON t.id = l.task_id
             WHERE l.link_id = 3 AND l.opposite_task_id = row.id AND l.state = 'satisfied'
               AND t.status = 'ready' AND t.open_blockers = 0 AND NOT t.delayed) q;
    END IF;
END $$;
