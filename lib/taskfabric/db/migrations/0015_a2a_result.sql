-- The result of a task is what its last run has told: the pieces of a run that was lost before are no part of it.

CREATE OR REPLACE FUNCTION fabric_a2a_follow() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
        IF said <> '' AND NOT EXISTS (
                SELECT FROM a2a_events e WHERE e.a2a_id = v.id AND e.kind = 'artifact'
                   AND e.at >= (SELECT max(m.date_creation) FROM comments m WHERE m.task_id = NEW.id AND m.kind = 'claimed')) THEN
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
