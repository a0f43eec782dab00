-- A2A: tasks under their public ids, and what is told of them. The board's row is the task; these tables are how a caller
-- from outside sees it. Nothing here decides anything about the row.

ALTER TABLE tasks ADD COLUMN a2a boolean NOT NULL DEFAULT false;  -- somebody follows it over A2A

-- One public id for as long as it is unfinished: a terminal state is final there, so a row that is opened again gets a new
-- one, which `follows` the old.
CREATE TABLE a2a_tasks (
    id text PRIMARY KEY,                        -- a random UUID; outlives the row, so that it is never given again
    task_id bigint NOT NULL,
    owner_id integer NOT NULL,                  -- whose call made it; nobody else sees it here
    agent_id integer NOT NULL,
    context text NOT NULL,                      -- the owner's own: the same word of another owner is another context
    state text NOT NULL,                        -- TASK_STATE_…; RECORD = a direct message, no task
    seq integer NOT NULL,                       -- the number of its last event
    changed timestamptz NOT NULL,               -- when the state began, in milliseconds
    current boolean NOT NULL DEFAULT true,      -- it still follows the row
    follows text
);
CREATE UNIQUE INDEX a2a_tasks_current ON a2a_tasks (task_id) WHERE current;
CREATE INDEX a2a_tasks_newest ON a2a_tasks (owner_id, agent_id, changed DESC, id DESC);
CREATE INDEX a2a_tasks_context ON a2a_tasks (owner_id, context);

-- What is told, in order. `body` is a whole StreamResponse in ProtoJSON; a message is history and goes to no stream.
CREATE TABLE a2a_events (
    a2a_id text NOT NULL REFERENCES a2a_tasks ON DELETE CASCADE,
    n integer NOT NULL,
    at timestamptz NOT NULL DEFAULT fabric_now(),
    kind text NOT NULL CHECK (kind IN ('message', 'status', 'artifact')),
    body jsonb NOT NULL,
    PRIMARY KEY (a2a_id, n)
);

-- The same function as domain/status.a2a_state; null for a record.
CREATE FUNCTION fabric_a2a_state(p_status text, p_flags integer, p_epoch bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
SELECT CASE p_status
    WHEN 'backlog' THEN 'TASK_STATE_SUBMITTED'
    WHEN 'held' THEN 'TASK_STATE_SUBMITTED'
    WHEN 'ready' THEN CASE WHEN p_epoch > 0 THEN 'TASK_STATE_WORKING' ELSE 'TASK_STATE_SUBMITTED' END
    WHEN 'working' THEN 'TASK_STATE_WORKING'
    WHEN 'waiting' THEN CASE WHEN p_flags & 4 > 0 THEN 'TASK_STATE_AUTH_REQUIRED'
                             WHEN p_flags & 2 > 0 THEN 'TASK_STATE_INPUT_REQUIRED' ELSE 'TASK_STATE_WORKING' END
    WHEN 'done' THEN 'TASK_STATE_COMPLETED'
    WHEN 'verified' THEN 'TASK_STATE_COMPLETED'
    WHEN 'dead' THEN 'TASK_STATE_FAILED'
    WHEN 'cancelled' THEN 'TASK_STATE_CANCELED'
    WHEN 'rejected' THEN 'TASK_STATE_REJECTED'
END $$;

CREATE FUNCTION fabric_a2a_time(p_at timestamptz) RETURNS text STABLE LANGUAGE sql AS
$$ SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- At the end of every transaction that changed the status of a row that is followed: what is to be told is told in it,
-- whoever it was, a worker, a sweep or a hand. The result's note is an artifact unless the run made some itself; the
-- bytes of attached files are filled in when they are read.
CREATE FUNCTION fabric_a2a_follow() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    t record;
    v a2a_tasks;
    now_is text;
    said text;
    by_id integer;
    last integer;
    file record;
BEGIN
    SELECT * INTO v FROM a2a_tasks WHERE task_id = NEW.id AND current FOR UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT x.status, x.flags, x.epoch, date_trunc('milliseconds', x.date_modification) AS at INTO t
      FROM tasks x WHERE x.id = NEW.id;
    now_is := fabric_a2a_state(t.status, t.flags, t.epoch);
    IF now_is IS NULL THEN
        UPDATE a2a_tasks SET state = 'RECORD', current = false WHERE id = v.id;
        RETURN NULL;
    END IF;
    IF now_is = v.state THEN RETURN NULL; END IF;
    last := v.seq;
    IF v.state IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED') THEN
        IF now_is IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED') THEN
            RETURN NULL;
        END IF;
        UPDATE a2a_tasks SET current = false WHERE id = v.id;
        v.follows := v.id;
        v.id := gen_random_uuid()::text;
        last := 0;
        INSERT INTO a2a_tasks (id, task_id, owner_id, agent_id, context, state, seq, changed, follows)
        VALUES (v.id, v.task_id, v.owner_id, v.agent_id, v.context, now_is, 0, t.at, v.follows);
    END IF;
    SELECT m.text, m.user_id INTO said, by_id FROM comments m WHERE m.task_id = NEW.id AND m.kind = ANY (CASE now_is
        WHEN 'TASK_STATE_COMPLETED' THEN ARRAY['note'] WHEN 'TASK_STATE_FAILED' THEN ARRAY['dead']
        WHEN 'TASK_STATE_INPUT_REQUIRED' THEN ARRAY['question'] WHEN 'TASK_STATE_AUTH_REQUIRED' THEN ARRAY['question']
        WHEN 'TASK_STATE_REJECTED' THEN ARRAY['declined'] WHEN 'TASK_STATE_CANCELED' THEN ARRAY['cancelled']
        ELSE ARRAY['answer'] END) ORDER BY m.id DESC LIMIT 1;
    IF v.state IN ('TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED') AND now_is = 'TASK_STATE_WORKING' THEN
        -- A person has answered on the board; what came over A2A is written down where it came in.
        IF said IS NOT NULL AND coalesce(current_setting('fabric.a2a', true), '') = '' THEN
            last := last + 1;
            INSERT INTO a2a_events (a2a_id, n, at, kind, body) VALUES (v.id, last, t.at, 'message', jsonb_build_object(
                'message', jsonb_build_object('messageId', v.id || '-' || last, 'role', 'ROLE_USER', 'taskId', v.id,
                    'contextId', v.context, 'parts', jsonb_build_array(jsonb_build_object('text', said)),
                    'metadata', jsonb_build_object('author', (SELECT username FROM users WHERE id = by_id)))));
        END IF;
        said := NULL;
    ELSIF now_is IN ('TASK_STATE_WORKING', 'TASK_STATE_SUBMITTED') THEN
        said := NULL;
    END IF;
    IF now_is = 'TASK_STATE_COMPLETED' THEN
        IF said <> '' AND NOT EXISTS (SELECT FROM a2a_events e WHERE e.a2a_id = v.id AND e.kind = 'artifact') THEN
            last := last + 1;
            INSERT INTO a2a_events (a2a_id, n, at, kind, body) VALUES (v.id, last, t.at, 'artifact', jsonb_build_object(
                'artifactUpdate', jsonb_build_object('taskId', v.id, 'contextId', v.context, 'lastChunk', true,
                    'artifact', jsonb_build_object('artifactId', 'result', 'name', 'result',
                        'parts', jsonb_build_array(jsonb_build_object('text', said))))));
        END IF;
        FOR file IN SELECT f.id, f.name, f.sha256, f.size FROM task_has_files f
                     WHERE f.task_id = NEW.id AND f.user_id <> v.owner_id ORDER BY f.id LOOP
            last := last + 1;
            INSERT INTO a2a_events (a2a_id, n, at, kind, body) VALUES (v.id, last, t.at, 'artifact', jsonb_build_object(
                'artifactUpdate', jsonb_build_object('taskId', v.id, 'contextId', v.context, 'lastChunk', true,
                    'artifact', jsonb_build_object('artifactId', 'file-' || file.id, 'name', file.name,
                        'parts', jsonb_build_array(jsonb_build_object('filename', file.name, 'metadata',
                            jsonb_build_object('fabric/sha256', file.sha256, 'fabric/size', file.size)))))));
        END LOOP;
    END IF;
    last := last + 1;
    INSERT INTO a2a_events (a2a_id, n, at, kind, body) VALUES (v.id, last, t.at, 'status', jsonb_build_object(
        'statusUpdate', jsonb_build_object('taskId', v.id, 'contextId', v.context, 'status', jsonb_build_object(
            'state', now_is, 'timestamp', fabric_a2a_time(t.at)) || CASE WHEN said <> '' THEN jsonb_build_object('message',
                jsonb_build_object('messageId', v.id || '-' || last, 'role', 'ROLE_AGENT', 'taskId', v.id, 'contextId', v.context,
                    'parts', jsonb_build_array(jsonb_build_object('text', left(said, 8192))))) ELSE '{}'::jsonb END)));
    UPDATE a2a_tasks SET state = now_is, seq = last, changed = t.at WHERE id = v.id;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER tasks_a2a AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.a2a AND (OLD.status IS DISTINCT FROM NEW.status OR OLD.flags IS DISTINCT FROM NEW.flags))
    EXECUTE FUNCTION fabric_a2a_follow();

-- A whole start: the row under its lease, its texts, the journal of submit and claim, the claim's comment, the public id and
-- its first two events. Nothing, and no row, when the holder has no place left; its own row is the lock, so that two starts
-- cannot both see the last one. The task is not claimable at any moment, so the floors of lanes need no lock.
CREATE FUNCTION fabric_a2a_start(
    p jsonb, p_me integer, p_holder integer, p_places integer, p_token bigint, p_seconds double precision, p_a2a text
) RETURNS TABLE (new_id bigint, since timestamptz, made_at timestamptz, leased_until timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    context text := p ->> 'context';
    project integer := (p ->> 'project')::integer;
    instance text := p ->> 'instance';
BEGIN
    IF p_places IS NOT NULL THEN
        PERFORM FROM users WHERE id = p_holder FOR NO KEY UPDATE;
        IF (SELECT count(*) FROM tasks WHERE owner_id = p_holder AND lease_until >= fabric_now()) >= p_places THEN
            RETURN;
        END IF;
    END IF;
    made_at := fabric_now();
    since := date_trunc('milliseconds', made_at);
    leased_until := made_at + p_seconds * interval '1 second';
    INSERT INTO tasks (project_id, column_id, swimlane_id, lane_id, role, status, flags, title, max_attempts, trust, label,
                       interlocutor_id, parent_id, root_id, depth, has_tags, has_text, creator_id, by_agent, run_task,
                       run_epoch, owner_id, epoch, token, attempts, seq, lease_seconds, lease_until, date_started,
                       holder_instance, a2a)
    VALUES (project, (p ->> 'column')::integer, (p ->> 'swimlane')::integer, (p ->> 'lane')::integer, 'working', 'working',
            (p ->> 'flags')::integer, p ->> 'title', (p ->> 'max_attempts')::smallint, (p ->> 'trust')::smallint,
            p ->> 'label', (p ->> 'behalf')::integer, (p ->> 'parent')::bigint, (p ->> 'root')::bigint,
            (p ->> 'depth')::smallint, false, true, p_me, (p ->> 'by_agent')::boolean, (p ->> 'run_task')::bigint,
            (p ->> 'run_epoch')::bigint, p_holder, 1, p_token, 1, 2, p_seconds, leased_until, made_at, instance, true)
    RETURNING id INTO new_id;
    INSERT INTO task_texts (task_id, description, key) VALUES (new_id, p ->> 'description', p ->> 'key');
    INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch, run_task, run_epoch)
    VALUES (new_id, 1, project, p_me, 'submitted', p ->> 'via', 0, (p ->> 'run_task')::bigint, (p ->> 'run_epoch')::bigint),
           (new_id, 2, project, p_holder, 'claimed', p ->> 'holder_via', 1, NULL, NULL);
    INSERT INTO comments (task_id, user_id, kind, epoch, until, instance)
    VALUES (new_id, p_holder, 'claimed', 1, leased_until, instance);
    INSERT INTO a2a_tasks (id, task_id, owner_id, agent_id, context, state, seq, changed)
    VALUES (p_a2a, new_id, p_me, p_holder, context, 'TASK_STATE_WORKING', 2, since);
    INSERT INTO a2a_events (a2a_id, n, at, kind, body)
    VALUES (p_a2a, 1, since, 'message', jsonb_build_object('message', p -> 'message')),
           (p_a2a, 2, since, 'status', jsonb_build_object('statusUpdate', jsonb_build_object('taskId', p_a2a, 'contextId',
            context, 'status', jsonb_build_object('state', 'TASK_STATE_WORKING', 'timestamp', fabric_a2a_time(since)))));
    RETURN NEXT;
END $$;

-- Push -----------------------------------------------------------------------------------------------------------
-- Where the owner of a task wants to be told. `sealed` holds token and credentials, under a key that is not in the
-- database.
CREATE TABLE push_configs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    a2a_id text NOT NULL REFERENCES a2a_tasks ON DELETE CASCADE,
    owner_id integer NOT NULL,
    id text NOT NULL,
    url text NOT NULL,
    scheme text NOT NULL DEFAULT '',
    sealed bytea,                               -- null: there is no secret
    has_token boolean NOT NULL,
    has_credentials boolean NOT NULL,
    created timestamptz NOT NULL DEFAULT fabric_now(),
    given_up text,                              -- why nothing is sent there any more
    UNIQUE (a2a_id, owner_id, id)
);

-- What is still to be sent, in the order of `n`; the words are those of the event.
CREATE TABLE push_outbox (
    config bigint NOT NULL REFERENCES push_configs ON DELETE CASCADE,
    n integer NOT NULL,
    attempts smallint NOT NULL DEFAULT 0,
    due timestamptz NOT NULL DEFAULT fabric_now(),
    PRIMARY KEY (config, n)
);
CREATE INDEX push_outbox_due ON push_outbox (due);

CREATE FUNCTION fabric_push() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO push_outbox (config, n)
    SELECT number, NEW.n FROM push_configs WHERE a2a_id = NEW.a2a_id AND given_up IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER a2a_events_push AFTER INSERT ON a2a_events FOR EACH ROW WHEN (NEW.kind <> 'message')
    EXECUTE FUNCTION fabric_push();
