CREATE FUNCTION public.fabric_a2a_follow() RETURNS trigger
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

CREATE FUNCTION public.fabric_a2a_start(p jsonb, p_me integer, p_holder integer, p_places integer, p_token bigint, p_seconds double precision, p_a2a text) RETURNS TABLE(new_id bigint, since timestamp with time zone, made_at timestamp with time zone, leased_until timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.fabric_a2a_state(p_status text, p_flags integer, p_epoch bigint) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
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

CREATE FUNCTION public.fabric_a2a_time(p_at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    AS $$ SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

CREATE FUNCTION public.fabric_carry_end(p_task bigint, p_was text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.fabric_end_decisions() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE approvals SET use_until = least(use_until, fabric_now())
     WHERE state IN ('approved', 'edited-approved') AND consumed_at IS NULL;
    UPDATE grants SET revoked_at = fabric_now() WHERE revoked_at IS NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION public.fabric_finished(status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (status = ANY (ARRAY['done'::text, 'verified'::text, 'dead'::text, 'cancelled'::text, 'rejected'::text, 'record'::text]));

CREATE FUNCTION public.fabric_hold_if_broken(p_task bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    blocker bigint := (SELECT min(l.opposite_task_id) FROM task_has_links l
                        WHERE l.task_id = p_task AND l.link_id = 3 AND l.state = 'broken');
    row tasks;
BEGIN
    IF blocker IS NULL THEN
        RETURN;
    END IF;
    UPDATE tasks SET flags = flags | 1, status = 'held', hold_rule = 'blocker', seq = seq + 1,
           told = greatest(told, pg_current_xact_id())
     WHERE id = p_task AND status = 'ready' RETURNING * INTO row;
    IF FOUND THEN
        PERFORM fabric_note(row, 'held', '#' || blocker || ', which blocks it, can no longer release it', 'held',
                            jsonb_build_object('by', blocker));
    END IF;
END $$;

CREATE FUNCTION public.fabric_journal_months(ahead interval) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    month timestamptz := date_trunc('month', statement_timestamp(), 'UTC');
    part text;
    made integer := 0;
BEGIN
    WHILE month <= statement_timestamp() + ahead LOOP
        part := 'journal_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
        IF to_regclass(part) IS NULL AND NOT EXISTS (
            SELECT FROM journal_rest WHERE at >= month AND at < month + interval '1 month')
        THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF journal FOR VALUES FROM (%L) TO (%L)',
                           part, month, (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
            made := made + 1;
        END IF;
        month := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
    END LOOP;
    RETURN made;
END $$;

CREATE FUNCTION public.fabric_lane(p_project integer, p_tier text, p_priority smallint, p_needs text[], p_trust smallint) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE found_id integer;
BEGIN
    LOOP
        SELECT id INTO found_id FROM lanes
         WHERE project_id = p_project AND tier = p_tier AND priority = p_priority AND needs = p_needs AND trust = p_trust;
        IF FOUND THEN RETURN found_id; END IF;
        PERFORM pg_advisory_xact_lock(hashtext('taskfabric.lanes'));  -- so that ids commit in their order
        INSERT INTO lanes (project_id, tier, priority, needs, trust)
        VALUES (p_project, p_tier, p_priority, p_needs, p_trust) ON CONFLICT DO NOTHING RETURNING id INTO found_id;
        IF FOUND THEN RETURN found_id; END IF;
    END LOOP;
END $$;

CREATE FUNCTION public.fabric_lift_epochs() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE lifted bigint;
BEGIN
    INSERT INTO restores (step) VALUES (1000000);
    DELETE FROM lane_floors;
    -- A copy in another server has events of transactions which that server has yet to reach: no reader would see them,
    -- and new ones would stand before them. Their ids alone keep the order.
    IF EXISTS (SELECT FROM journal WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())) THEN
        UPDATE journal SET xid = '0';
    END IF;
    INSERT INTO journal (task_id, seq, project_id, actor_id, kind, via, epoch)
    SELECT id, seq + 1, project_id, 0, 'restored', 'system', epoch FROM tasks WHERE token IS NOT NULL;
    UPDATE tasks t SET epoch = t.epoch + 1000000,
           seq = t.seq + (t.token IS NOT NULL)::integer,
           told = pg_current_xact_id(),
           attempts = greatest(0, t.attempts - (t.token IS NOT NULL)::integer),
           role = CASE WHEN t.token IS NULL THEN t.role ELSE 'ready' END,
           status = CASE WHEN t.token IS NULL THEN t.status ELSE 'ready' END,
           column_id = CASE WHEN t.token IS NULL THEN t.column_id ELSE coalesce(q.ready_column, t.column_id) END,
           owner_id = CASE WHEN t.token IS NULL THEN t.owner_id END,
           ready_since = CASE WHEN t.token IS NULL THEN t.ready_since ELSE fabric_now() END,
           date_started = CASE WHEN t.token IS NULL THEN t.date_started END,
           holder_instance = NULL, token = NULL, lease_until = NULL
      FROM tasks s LEFT JOIN queues q ON q.project_id = s.project_id WHERE s.id = t.id;
    GET DIAGNOSTICS lifted = ROW_COUNT;
    RETURN lifted;
END $$;

CREATE FUNCTION public.fabric_now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();

CREATE SEQUENCE public.task_rank
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.tasks (
    id bigint NOT NULL,
    rank bigint DEFAULT (nextval('public.task_rank'::regclass) * 1048576) NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    token bigint,
    told xid8 DEFAULT pg_current_xact_id() NOT NULL,
    parent_id bigint,
    root_id bigint,
    run_task bigint,
    run_epoch bigint,
    date_creation timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    date_modification timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    date_started timestamp with time zone,
    date_due timestamp with time zone,
    date_completed timestamp with time zone,
    ready_since timestamp with time zone,
    lease_until timestamp with time zone,
    lease_seconds real,
    project_id integer NOT NULL,
    column_id integer NOT NULL,
    swimlane_id integer NOT NULL,
    lane_id integer NOT NULL,
    creator_id integer NOT NULL,
    interlocutor_id integer,
    owner_id integer,
    producer_id integer,
    asked_id integer,
    score integer,
    flags integer DEFAULT 0 NOT NULL,
    seq integer DEFAULT 1 NOT NULL,
    open_blockers integer DEFAULT 0 NOT NULL,
    dependents integer DEFAULT 0 NOT NULL,
    children integer DEFAULT 0 NOT NULL,
    open_children integer DEFAULT 0 NOT NULL,
    depth smallint DEFAULT 0 NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    max_attempts smallint DEFAULT 3 NOT NULL,
    parks smallint DEFAULT 0 NOT NULL,
    waits smallint DEFAULT 0 NOT NULL,
    releases smallint DEFAULT 0 NOT NULL,
    trust smallint DEFAULT 3 NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    delayed boolean DEFAULT false NOT NULL,
    by_agent boolean DEFAULT false NOT NULL,
    has_text boolean DEFAULT false NOT NULL,
    has_tags boolean DEFAULT false NOT NULL,
    role text,
    status text NOT NULL,
    title text NOT NULL,
    label text DEFAULT 'household'::text NOT NULL,
    reference text DEFAULT ''::text NOT NULL,
    hold_rule text,
    holder_instance text,
    verdict text,
    a2a boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05');

CREATE FUNCTION public.fabric_note(p_task public.tasks, p_comment text, p_text text, p_event text, p_data jsonb) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO comments (task_id, user_id, kind, text) VALUES (p_task.id, 0, p_comment, p_text);
    INSERT INTO journal (xid, task_id, seq, project_id, actor_id, kind, via, data)
    VALUES (p_task.told, p_task.id, p_task.seq, p_task.project_id, 0, p_event, 'system', p_data);
$$;

CREATE FUNCTION public.fabric_open_lane(p_task bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    lane integer;
    place bigint;
BEGIN
    SELECT lane_id, rank INTO lane, place FROM tasks
     WHERE id = p_task AND status = 'ready' AND open_blockers = 0 AND NOT delayed;
    IF FOUND THEN
        PERFORM pg_advisory_xact_lock_shared(7301, lane);
        UPDATE lane_floors SET floor = place WHERE lane_id = lane AND floor > place;
    END IF;
END $$;

CREATE FUNCTION public.fabric_push() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO push_outbox (config, n)
    SELECT number, NEW.n FROM push_configs WHERE a2a_id = NEW.a2a_id AND given_up IS NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION public.fabric_raise_floors(p_lanes integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    lane integer;
    head bigint;
BEGIN
    FOREACH lane IN ARRAY p_lanes LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(7301, lane);
        SELECT rank INTO head FROM tasks
         WHERE lane_id = lane AND status = 'ready' AND open_blockers = 0 AND NOT delayed
           AND rank >= coalesce((SELECT floor FROM lane_floors WHERE lane_id = lane), -9223372036854775808)
         ORDER BY rank LIMIT 1;
        CONTINUE WHEN head IS NULL;
        INSERT INTO lane_floors VALUES (lane, head)
        ON CONFLICT (lane_id) DO UPDATE SET floor = EXCLUDED.floor WHERE lane_floors.floor < EXCLUDED.floor;
    END LOOP;
END $$;

CREATE FUNCTION public.fabric_release_dependents(p_blocker public.tasks) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    needs_verified boolean := coalesce((SELECT q.needs_verified FROM queues q WHERE q.project_id = p_blocker.project_id), false);
    veto boolean := p_blocker.flags & 16 <> 0;
    effect text;
    dep record;
    row tasks;
    why text;
BEGIN
    effect := CASE
        WHEN p_blocker.status = 'done' AND veto THEN 'broken'
        WHEN p_blocker.status = 'done' AND needs_verified THEN 'open'
        WHEN p_blocker.status = 'done' THEN 'satisfied'
        WHEN p_blocker.status = 'verified' AND NOT veto THEN 'satisfied'
        WHEN fabric_finished(p_blocker.status) THEN 'broken'
        ELSE 'open' END;
    FOR dep IN
        SELECT l.id, l.task_id, l.state FROM task_has_links l
         WHERE l.link_id = 3 AND l.opposite_task_id = p_blocker.id AND l.state <> effect
         ORDER BY l.task_id
    LOOP
        UPDATE task_has_links SET state = effect WHERE id = dep.id AND state = dep.state;
        CONTINUE WHEN NOT FOUND;
        IF effect = 'satisfied' THEN
            UPDATE tasks SET open_blockers = open_blockers - 1, seq = seq + 1, told = greatest(told, pg_current_xact_id()),
                   ready_since = CASE WHEN open_blockers = 1 THEN fabric_now() ELSE ready_since END
             WHERE id = dep.task_id RETURNING * INTO row;
            PERFORM fabric_note(row, 'resumed', '#' || p_blocker.id || ' no longer blocks it', 'unblocked',
                                jsonb_build_object('by', p_blocker.id, 'left', row.open_blockers));
            PERFORM fabric_open_lane(row.id);
        ELSIF effect = 'broken' THEN
            why := '#' || p_blocker.id || ', which blocks it, '
                   || CASE WHEN veto THEN 'ended with a veto' ELSE 'is ' || p_blocker.status END;
            UPDATE tasks SET seq = seq + 1, told = greatest(told, pg_current_xact_id()),
                   open_blockers = open_blockers + CASE WHEN dep.state = 'satisfied' THEN 1 ELSE 0 END,
                   flags = CASE WHEN status IN ('ready', 'backlog', 'held') THEN flags | 1 ELSE flags END,
                   status = CASE WHEN status IN ('ready', 'backlog') THEN 'held' ELSE status END,
                   hold_rule = CASE WHEN status IN ('ready', 'backlog', 'held') THEN 'blocker' ELSE hold_rule END
             WHERE id = dep.task_id RETURNING * INTO row;
            PERFORM fabric_note(row, 'held', why, 'held', jsonb_build_object('by', p_blocker.id));
        ELSE
            UPDATE tasks SET seq = seq + 1, told = greatest(told, pg_current_xact_id()),
                   open_blockers = open_blockers + CASE WHEN dep.state = 'satisfied' THEN 1 ELSE 0 END
             WHERE id = dep.task_id RETURNING * INTO row;
            PERFORM fabric_note(row, 'held', '#' || p_blocker.id || ' was reopened and blocks it again', 'blocked',
                                jsonb_build_object('by', p_blocker.id));
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION public.fabric_status(role text, is_active boolean, flags integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN is_active THEN CASE role WHEN 'done'::text THEN CASE WHEN ((flags & 32) <> 0) THEN 'dead'::text ELSE 'done'::text END WHEN 'working'::text THEN CASE WHEN ((flags & 1) <> 0) THEN 'waiting'::text ELSE 'working'::text END WHEN 'ready'::text THEN CASE WHEN ((flags & 1) <> 0) THEN 'held'::text ELSE 'ready'::text END ELSE CASE WHEN ((flags & 1) <> 0) THEN 'held'::text ELSE 'backlog'::text END END WHEN ((flags & 256) <> 0) THEN 'record'::text WHEN ((flags & 128) <> 0) THEN 'rejected'::text WHEN (((flags & 64) <> 0) OR (role IS DISTINCT FROM 'done'::text)) THEN 'cancelled'::text WHEN ((flags & 32) <> 0) THEN 'dead'::text ELSE 'verified'::text END;

CREATE FUNCTION public.fabric_tell_parent(p_child public.tasks, p_step integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE row tasks;
BEGIN
    UPDATE tasks SET open_children = open_children + p_step WHERE id = p_child.parent_id RETURNING * INTO row;
    IF row.open_children = 0 AND row.status = 'waiting' AND row.flags & 6 = 0 THEN
        UPDATE tasks t SET role = 'ready', status = 'ready', flags = flags & ~1, seq = seq + 1,
               told = greatest(told, pg_current_xact_id()), ready_since = fabric_now(),
               column_id = q.ready_column, owner_id = NULL, holder_instance = NULL, date_started = NULL,
               rank = coalesce((SELECT min(o.rank) FROM tasks o WHERE o.project_id = t.project_id
                                   AND o.column_id = q.ready_column AND o.is_active), t.rank) - 1048576
          FROM queues q WHERE t.id = row.id AND q.project_id = t.project_id RETURNING t.* INTO row;
        PERFORM fabric_note(row, 'resumed', 'all of its children have finished', 'resumed',
                            jsonb_build_object('children', row.children));
        PERFORM fabric_open_lane(row.id);
        IF row.open_blockers > 0 THEN
            PERFORM fabric_hold_if_broken(row.id);
        END IF;
    END IF;
END $$;

CREATE FUNCTION public.fabric_texts(p_task bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (SELECT to_jsonb(x) FROM task_texts x WHERE x.task_id = p_task);
END $$;

CREATE TABLE public.a2a_events (
    a2a_id text NOT NULL,
    n integer NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    kind text NOT NULL,
    body jsonb NOT NULL,
    CONSTRAINT a2a_events_kind_check CHECK ((kind = ANY (ARRAY['message'::text, 'status'::text, 'artifact'::text])))
);

CREATE TABLE public.a2a_tasks (
    id text NOT NULL,
    task_id bigint NOT NULL,
    owner_id integer NOT NULL,
    agent_id integer NOT NULL,
    context text NOT NULL,
    state text NOT NULL,
    seq integer NOT NULL,
    changed timestamp with time zone NOT NULL,
    current boolean DEFAULT true NOT NULL,
    follows text
);

CREATE TABLE public.absences (
    user_id integer NOT NULL,
    until timestamp with time zone NOT NULL,
    to_id integer,
    note text DEFAULT ''::text NOT NULL,
    since timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    CONSTRAINT absences_check CHECK ((to_id <> user_id))
);

CREATE TABLE public.accounts (
    name text NOT NULL,
    closed_until timestamp with time zone,
    closed_since timestamp with time zone,
    is_known boolean DEFAULT false NOT NULL,
    quota_window text DEFAULT ''::text NOT NULL,
    evidence text DEFAULT ''::text NOT NULL,
    probes integer DEFAULT 0 NOT NULL,
    prober text DEFAULT ''::text NOT NULL,
    probe_until timestamp with time zone,
    warned_until timestamp with time zone,
    overloads integer DEFAULT 0 NOT NULL,
    is_told boolean DEFAULT false NOT NULL
);

CREATE TABLE public.action_has_params (
    action_id integer NOT NULL,
    name text NOT NULL,
    value text NOT NULL
);

CREATE TABLE public.actions (
    id integer NOT NULL,
    project_id integer NOT NULL,
    event_name text NOT NULL,
    action_name text NOT NULL
);

ALTER TABLE public.actions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.approval_deciders (
    approval_id bigint NOT NULL,
    user_id integer NOT NULL,
    how text NOT NULL,
    for_whom integer,
    since timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    until timestamp with time zone,
    CONSTRAINT approval_deciders_how_check CHECK ((how = ANY (ARRAY['asked'::text, 'delegated'::text, 'escalated'::text])))
);

CREATE TABLE public.approvals (
    id bigint NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    action text NOT NULL,
    args text NOT NULL,
    hash text NOT NULL,
    level smallint NOT NULL,
    requester_id integer NOT NULL,
    why text DEFAULT ''::text NOT NULL,
    recipient text,
    amount double precision,
    label text DEFAULT 'household'::text NOT NULL,
    task_id bigint,
    task_epoch bigint,
    gate_id bigint,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    expires timestamp with time zone NOT NULL,
    decided_by integer,
    decided_at timestamp with time zone,
    decided_args text,
    decided_hash text,
    for_whom integer,
    note text DEFAULT ''::text NOT NULL,
    via text,
    use_until timestamp with time zone,
    consumed_at timestamp with time zone,
    grant_id bigint,
    reminded smallint DEFAULT 0 NOT NULL,
    is_told boolean DEFAULT false NOT NULL,
    CONSTRAINT approvals_check CHECK (((decided_by IS NOT NULL) = (state = ANY (ARRAY['approved'::text, 'edited-approved'::text, 'denied'::text])))),
    CONSTRAINT approvals_check1 CHECK ((decided_by IS DISTINCT FROM requester_id)),
    CONSTRAINT approvals_check2 CHECK (((consumed_at IS NULL) OR (state = ANY (ARRAY['approved'::text, 'edited-approved'::text])))),
    CONSTRAINT approvals_level_check CHECK (((level >= 2) AND (level <= 3))),
    CONSTRAINT approvals_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'approved'::text, 'edited-approved'::text, 'denied'::text, 'expired'::text, 'superseded'::text, 'withdrawn'::text])))
);

ALTER TABLE public.approvals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.approvals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.channels (
    id integer NOT NULL,
    user_id integer NOT NULL,
    shown text NOT NULL,
    sealed bytea NOT NULL,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

ALTER TABLE public.channels ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.channels_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.chunks (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    n bigint NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    stream text NOT NULL,
    text text NOT NULL
);

CREATE TABLE public.columns (
    id integer NOT NULL,
    project_id integer NOT NULL,
    title text NOT NULL,
    "position" integer NOT NULL,
    task_limit integer DEFAULT 0 NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    role text,
    hide_in_dashboard boolean DEFAULT false NOT NULL,
    CONSTRAINT columns_role_check CHECK ((role = ANY (ARRAY['backlog'::text, 'ready'::text, 'working'::text, 'done'::text])))
);

ALTER TABLE public.columns ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.columns_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.comments (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    date_creation timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    date_modification timestamp with time zone,
    until timestamp with time zone,
    epoch bigint,
    user_id integer NOT NULL,
    number smallint,
    number_of smallint,
    kind text DEFAULT ''::text NOT NULL,
    instance text,
    text text DEFAULT ''::text NOT NULL,
    reference text DEFAULT ''::text NOT NULL,
    visibility text DEFAULT 'app-user'::text NOT NULL
);

ALTER TABLE public.comments ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.comments_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.credentials (
    id integer NOT NULL,
    user_id integer NOT NULL,
    hash bytea NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    via text NOT NULL,
    queues integer[],
    run_task bigint,
    run_epoch bigint,
    created_by integer,
    created_at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT credentials_via_check CHECK ((via = ANY (ARRAY['local'::text, 'token'::text, 'session'::text])))
);

ALTER TABLE public.credentials ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.credentials_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.digests (
    user_id integer NOT NULL,
    day date NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

CREATE TABLE public.grants (
    id bigint NOT NULL,
    grantor_id integer NOT NULL,
    agent_id integer NOT NULL,
    action text NOT NULL,
    recipient text,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    until timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    used integer DEFAULT 0 NOT NULL,
    CONSTRAINT grants_check CHECK ((grantor_id <> agent_id))
);

ALTER TABLE public.grants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.grants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.group_has_users (
    group_id integer NOT NULL,
    user_id integer NOT NULL
);

CREATE TABLE public.groups (
    id integer NOT NULL,
    external_id text DEFAULT ''::text NOT NULL,
    name text NOT NULL
);

ALTER TABLE public.groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.identity (
    id uuid DEFAULT gen_random_uuid() NOT NULL
);

CREATE TABLE public.journal (
    id bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    task_id bigint,
    epoch bigint,
    run_task bigint,
    run_epoch bigint,
    seq integer,
    project_id integer,
    actor_id integer NOT NULL,
    kind text NOT NULL,
    via text NOT NULL,
    data jsonb
)
PARTITION BY RANGE (at);

CREATE TABLE public.journal_followers (
    name text NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL
);

ALTER TABLE public.journal ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.journal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.lane_floors (
    lane_id integer NOT NULL,
    floor bigint NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE public.lanes (
    id integer NOT NULL,
    project_id integer NOT NULL,
    tier text NOT NULL,
    priority smallint NOT NULL,
    needs text[] NOT NULL,
    trust smallint NOT NULL
);

ALTER TABLE public.lanes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.lanes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.late_results (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    user_id integer NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    outcome text NOT NULL,
    text text NOT NULL
);

CREATE TABLE public.learned_limits (
    account text NOT NULL,
    quota_window text NOT NULL,
    used real NOT NULL,
    amount bigint,
    reset timestamp with time zone,
    seen timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

CREATE TABLE public.links (
    id integer NOT NULL,
    label text NOT NULL,
    opposite_id integer DEFAULT 0 NOT NULL
);

ALTER TABLE public.links ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.links_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.moved (
    source text NOT NULL,
    tbl text NOT NULL,
    theirs bigint NOT NULL,
    ours bigint NOT NULL
);

CREATE TABLE public.outbox (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    event_id bigint,
    task_id bigint,
    reason text NOT NULL,
    subject text NOT NULL,
    body text DEFAULT ''::text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    due timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    sent timestamp with time zone,
    error text DEFAULT ''::text NOT NULL,
    taken text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT outbox_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text])))
);

CREATE TABLE public.outbox_cursor (
    one boolean DEFAULT true NOT NULL,
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    CONSTRAINT outbox_cursor_one_check CHECK (one)
);

ALTER TABLE public.outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.passed_on (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    by_id integer NOT NULL,
    to_id integer NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE public.pauses (
    name text NOT NULL,
    until timestamp with time zone,
    note text DEFAULT ''::text NOT NULL,
    by_id integer NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

CREATE TABLE public.policies (
    id integer NOT NULL,
    text text NOT NULL,
    by_id integer NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

ALTER TABLE public.policies ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.policies_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.project_has_categories (
    id integer NOT NULL,
    project_id integer NOT NULL,
    name text NOT NULL,
    color_id text,
    description text DEFAULT ''::text NOT NULL
);

ALTER TABLE public.project_has_categories ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.project_has_categories_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.project_has_files (
    id integer NOT NULL,
    project_id integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    user_id integer NOT NULL,
    date timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

ALTER TABLE public.project_has_files ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.project_has_files_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.project_has_groups (
    project_id integer NOT NULL,
    group_id integer NOT NULL,
    role text NOT NULL,
    CONSTRAINT project_has_groups_role_check CHECK ((role = ANY (ARRAY['project-manager'::text, 'project-member'::text, 'project-viewer'::text])))
);

CREATE TABLE public.project_has_metadata (
    project_id integer NOT NULL,
    name text NOT NULL,
    value text DEFAULT ''::text NOT NULL
);

CREATE TABLE public.project_has_users (
    project_id integer NOT NULL,
    user_id integer NOT NULL,
    role text NOT NULL,
    CONSTRAINT project_has_users_role_check CHECK ((role = ANY (ARRAY['project-manager'::text, 'project-member'::text, 'project-viewer'::text])))
);

CREATE VIEW public.project_roles AS
 SELECT project_has_users.project_id,
    project_has_users.user_id,
    project_has_users.role,
    true AS own
   FROM public.project_has_users
UNION ALL
 SELECT g.project_id,
    m.user_id,
    g.role,
    false AS own
   FROM (public.project_has_groups g
     JOIN public.group_has_users m USING (group_id));

CREATE TABLE public.projects (
    id integer NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    identifier text DEFAULT ''::text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    is_private boolean DEFAULT false NOT NULL,
    owner_id integer,
    priority_default smallint DEFAULT 1 NOT NULL,
    priority_start smallint DEFAULT 0 NOT NULL,
    priority_end smallint DEFAULT 3 NOT NULL,
    last_modified timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    is_public boolean DEFAULT false NOT NULL,
    token text DEFAULT ''::text NOT NULL,
    email text,
    start_date text DEFAULT ''::text NOT NULL,
    end_date text DEFAULT ''::text NOT NULL
);

ALTER TABLE public.projects ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.projects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.push_configs (
    number bigint NOT NULL,
    a2a_id text NOT NULL,
    owner_id integer NOT NULL,
    id text NOT NULL,
    url text NOT NULL,
    scheme text DEFAULT ''::text NOT NULL,
    sealed bytea,
    has_token boolean NOT NULL,
    has_credentials boolean NOT NULL,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    given_up text
);

ALTER TABLE public.push_configs ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.push_configs_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.push_outbox (
    config bigint NOT NULL,
    n integer NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    due timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

CREATE TABLE public.queues (
    project_id integer NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    owner_id integer,
    score_check boolean DEFAULT false NOT NULL,
    needs_verified boolean DEFAULT false NOT NULL,
    human_verify boolean DEFAULT false NOT NULL,
    backlog_column integer,
    ready_column integer,
    working_column integer,
    done_column integer,
    swimlane_id integer,
    CONSTRAINT queues_check CHECK (((kind = 'pool'::text) = (owner_id IS NULL))),
    CONSTRAINT queues_kind_check CHECK ((kind = ANY (ARRAY['agent'::text, 'inbox'::text, 'pool'::text])))
);

CREATE TABLE public.restores (
    id integer NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    step bigint NOT NULL
);

ALTER TABLE public.restores ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.restores_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.schedule_slots (
    schedule text NOT NULL,
    slot timestamp with time zone NOT NULL,
    state text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    task_id bigint,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    CONSTRAINT schedule_slots_state_check CHECK ((state = ANY (ARRAY['due'::text, 'made'::text, 'missed'::text, 'skipped'::text, 'waiting'::text])))
);

CREATE TABLE public.schedules (
    name text NOT NULL,
    cursor timestamp with time zone NOT NULL
);

CREATE TABLE public.schema_migration (
    number integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.sessions (
    id integer NOT NULL,
    user_id integer NOT NULL,
    hash bytea NOT NULL,
    is_proven boolean NOT NULL,
    agent text DEFAULT ''::text NOT NULL,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    seen timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    expires timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone
);

ALTER TABLE public.sessions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sign_in_links (
    hash bytea NOT NULL,
    user_id integer NOT NULL,
    made_by integer NOT NULL,
    is_proven boolean NOT NULL,
    expires timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);

CREATE TABLE public.snoozes (
    user_id integer NOT NULL,
    task_id bigint NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE public.spendings (
    id bigint NOT NULL,
    account text NOT NULL,
    user_id integer NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    task_id bigint,
    epoch bigint,
    is_interactive boolean DEFAULT false NOT NULL,
    is_settled boolean DEFAULT false NOT NULL,
    units integer NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    cents bigint DEFAULT 0 NOT NULL,
    usage jsonb
);

ALTER TABLE public.spendings ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.spendings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.stock_cards (
    task_id bigint NOT NULL,
    seen jsonb NOT NULL,
    seq integer NOT NULL,
    comment_id bigint DEFAULT 0 NOT NULL,
    moved_from integer,
    moved_at timestamp with time zone,
    gone boolean DEFAULT false NOT NULL
);

CREATE TABLE public.stock_comments (
    task_id bigint NOT NULL,
    card_comment_id bigint NOT NULL,
    comment_id bigint NOT NULL
);

CREATE TABLE public.stock_dirty (
    task_id bigint NOT NULL,
    since timestamp with time zone DEFAULT statement_timestamp() NOT NULL
);

CREATE TABLE public.stock_leases (
    task_id bigint NOT NULL,
    epoch bigint NOT NULL,
    token bigint NOT NULL,
    tag_id bigint NOT NULL,
    user_id integer NOT NULL,
    at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    ended boolean DEFAULT false NOT NULL
);

CREATE TABLE public.submissions (
    submitter_id integer NOT NULL,
    key text NOT NULL,
    body_hash bytea NOT NULL,
    task_id bigint NOT NULL,
    created_at timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

CREATE TABLE public.subtask_time_tracking (
    id bigint NOT NULL,
    subtask_id bigint NOT NULL,
    user_id integer NOT NULL,
    started timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    ended timestamp with time zone,
    time_spent double precision DEFAULT 0 NOT NULL
);

ALTER TABLE public.subtask_time_tracking ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.subtask_time_tracking_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.subtasks (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    title text NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    time_estimated double precision DEFAULT 0 NOT NULL,
    time_spent double precision DEFAULT 0 NOT NULL,
    user_id integer DEFAULT 0 NOT NULL,
    "position" integer NOT NULL,
    CONSTRAINT subtasks_status_check CHECK (((status >= 0) AND (status <= 2)))
);

ALTER TABLE public.subtasks ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.subtasks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.swimlanes (
    id integer NOT NULL,
    project_id integer NOT NULL,
    name text NOT NULL,
    "position" integer NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    task_limit integer DEFAULT 0 NOT NULL
);

ALTER TABLE public.swimlanes ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.swimlanes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tags (
    id integer NOT NULL,
    project_id integer NOT NULL,
    name text NOT NULL,
    color_id text
);

ALTER TABLE public.tags ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tags_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_faces (
    task_id bigint NOT NULL,
    color_id text DEFAULT 'yellow'::text NOT NULL,
    category_id integer DEFAULT 0 NOT NULL,
    priority integer,
    time_spent double precision,
    time_estimated double precision,
    date_moved timestamp with time zone,
    recurrence_status integer DEFAULT 0 NOT NULL,
    recurrence_trigger integer DEFAULT 0 NOT NULL,
    recurrence_factor integer DEFAULT 0 NOT NULL,
    recurrence_timeframe integer DEFAULT 0 NOT NULL,
    recurrence_basedate integer DEFAULT 0 NOT NULL,
    recurrence_parent bigint,
    recurrence_child bigint
);

CREATE TABLE public.task_has_external_links (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    link_type text NOT NULL,
    dependency text NOT NULL,
    title text NOT NULL,
    url text NOT NULL,
    creator_id integer NOT NULL,
    date_creation timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    date_modification timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

ALTER TABLE public.task_has_external_links ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.task_has_external_links_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_has_files (
    id bigint NOT NULL,
    task_id bigint NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    user_id integer NOT NULL,
    date timestamp with time zone DEFAULT public.fabric_now() NOT NULL
);

ALTER TABLE public.task_has_files ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.task_has_files_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_has_links (
    id bigint NOT NULL,
    link_id integer NOT NULL,
    task_id bigint NOT NULL,
    opposite_task_id bigint NOT NULL,
    state text,
    CONSTRAINT task_has_links_check CHECK (((link_id = 3) = (state IS NOT NULL))),
    CONSTRAINT task_has_links_state_check CHECK ((state = ANY (ARRAY['open'::text, 'satisfied'::text, 'broken'::text])))
);

ALTER TABLE public.task_has_links ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.task_has_links_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.task_has_metadata (
    task_id bigint NOT NULL,
    name text NOT NULL,
    value text DEFAULT ''::text NOT NULL
);

CREATE TABLE public.task_has_tags (
    task_id bigint NOT NULL,
    tag_id integer NOT NULL
);

CREATE TABLE public.task_texts (
    task_id bigint NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    refs text[] DEFAULT '{}'::text[] NOT NULL,
    key text
);

ALTER TABLE public.tasks ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.tasks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.told (
    task_id bigint NOT NULL,
    kind text NOT NULL,
    occasion text NOT NULL,
    level smallint NOT NULL,
    at timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    CONSTRAINT told_kind_check CHECK ((kind = ANY (ARRAY['overdue'::text, 'dead'::text, 'question'::text])))
);

CREATE TABLE public.turns (
    name text NOT NULL,
    instance text NOT NULL,
    until timestamp with time zone NOT NULL,
    last_round timestamp with time zone NOT NULL
);

CREATE TABLE public.user_settings (
    user_id integer NOT NULL,
    quiet_begin time without time zone,
    quiet_end time without time zone,
    CONSTRAINT user_settings_check CHECK (((quiet_begin IS NULL) = (quiet_end IS NULL)))
);

CREATE TABLE public.users (
    id integer NOT NULL,
    username text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    kind text NOT NULL,
    role text DEFAULT 'app-user'::text NOT NULL,
    trust smallint NOT NULL,
    email text DEFAULT ''::text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    owner_id integer,
    tiers text[],
    capabilities text[] DEFAULT '{}'::text[],
    concurrency integer,
    pin_hash text,
    pin_failures smallint DEFAULT 0 NOT NULL,
    pin_locked_until timestamp with time zone,
    date_creation timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    removed boolean DEFAULT false NOT NULL,
    pin_code bytea,
    CONSTRAINT users_check CHECK (((kind = 'human'::text) = (trust = 3))),
    CONSTRAINT users_concurrency_check CHECK ((concurrency > 0)),
    CONSTRAINT users_kind_check CHECK ((kind = ANY (ARRAY['human'::text, 'agent'::text, 'service'::text]))),
    CONSTRAINT users_role_check CHECK ((role = ANY (ARRAY['app-admin'::text, 'app-manager'::text, 'app-user'::text]))),
    CONSTRAINT users_trust_check CHECK (((trust >= 0) AND (trust <= 3)))
);

ALTER TABLE public.users ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.webhooks (
    id bigint NOT NULL,
    event_id bigint NOT NULL,
    event_name text NOT NULL,
    body text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    due timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    created timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    sent timestamp with time zone,
    error text DEFAULT ''::text NOT NULL,
    CONSTRAINT webhooks_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text])))
);

ALTER TABLE public.webhooks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhooks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.worker_reports (
    user_id integer NOT NULL,
    instance text NOT NULL,
    state text NOT NULL,
    since timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    seen timestamp with time zone DEFAULT public.fabric_now() NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    until timestamp with time zone,
    running integer DEFAULT 0 NOT NULL,
    facts jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT worker_reports_state_check CHECK ((state = ANY (ARRAY['idle'::text, 'running'::text, 'closed'::text, 'draining'::text, 'gone'::text])))
);

ALTER TABLE ONLY public.a2a_events
    ADD CONSTRAINT a2a_events_pkey PRIMARY KEY (a2a_id, n);

ALTER TABLE ONLY public.a2a_tasks
    ADD CONSTRAINT a2a_tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.absences
    ADD CONSTRAINT absences_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.action_has_params
    ADD CONSTRAINT action_has_params_pkey PRIMARY KEY (action_id, name);

ALTER TABLE ONLY public.actions
    ADD CONSTRAINT actions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.approval_deciders
    ADD CONSTRAINT approval_deciders_pkey PRIMARY KEY (approval_id, user_id);

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.channels
    ADD CONSTRAINT channels_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.chunks
    ADD CONSTRAINT chunks_pkey PRIMARY KEY (task_id, epoch, n);

ALTER TABLE ONLY public.columns
    ADD CONSTRAINT columns_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.columns
    ADD CONSTRAINT columns_project_id_role_key UNIQUE (project_id, role);

ALTER TABLE ONLY public.columns
    ADD CONSTRAINT columns_project_id_title_key UNIQUE (project_id, title);

ALTER TABLE ONLY public.comments
    ADD CONSTRAINT comments_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.digests
    ADD CONSTRAINT digests_pkey PRIMARY KEY (user_id, day);

ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.group_has_users
    ADD CONSTRAINT group_has_users_pkey PRIMARY KEY (group_id, user_id);

ALTER TABLE ONLY public.groups
    ADD CONSTRAINT groups_name_key UNIQUE (name);

ALTER TABLE ONLY public.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.journal_followers
    ADD CONSTRAINT journal_followers_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.lane_floors
    ADD CONSTRAINT lane_floors_pkey PRIMARY KEY (lane_id);

ALTER TABLE ONLY public.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.lanes
    ADD CONSTRAINT lanes_project_id_tier_priority_needs_trust_key UNIQUE (project_id, tier, priority, needs, trust);

ALTER TABLE ONLY public.late_results
    ADD CONSTRAINT late_results_pkey PRIMARY KEY (task_id, epoch);

ALTER TABLE ONLY public.learned_limits
    ADD CONSTRAINT learned_limits_pkey PRIMARY KEY (account, quota_window);

ALTER TABLE ONLY public.links
    ADD CONSTRAINT links_label_key UNIQUE (label);

ALTER TABLE ONLY public.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.moved
    ADD CONSTRAINT moved_pkey PRIMARY KEY (source, tbl, theirs);

ALTER TABLE ONLY public.outbox_cursor
    ADD CONSTRAINT outbox_cursor_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_user_id_event_id_task_id_key UNIQUE (user_id, event_id, task_id);

ALTER TABLE ONLY public.passed_on
    ADD CONSTRAINT passed_on_pkey PRIMARY KEY (task_id, epoch);

ALTER TABLE ONLY public.pauses
    ADD CONSTRAINT pauses_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.policies
    ADD CONSTRAINT policies_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.project_has_categories
    ADD CONSTRAINT project_has_categories_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.project_has_categories
    ADD CONSTRAINT project_has_categories_project_id_name_key UNIQUE (project_id, name);

ALTER TABLE ONLY public.project_has_files
    ADD CONSTRAINT project_has_files_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.project_has_groups
    ADD CONSTRAINT project_has_groups_pkey PRIMARY KEY (project_id, group_id);

ALTER TABLE ONLY public.project_has_metadata
    ADD CONSTRAINT project_has_metadata_pkey PRIMARY KEY (project_id, name);

ALTER TABLE ONLY public.project_has_users
    ADD CONSTRAINT project_has_users_pkey PRIMARY KEY (project_id, user_id);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.push_configs
    ADD CONSTRAINT push_configs_a2a_id_owner_id_id_key UNIQUE (a2a_id, owner_id, id);

ALTER TABLE ONLY public.push_configs
    ADD CONSTRAINT push_configs_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.push_outbox
    ADD CONSTRAINT push_outbox_pkey PRIMARY KEY (config, n);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (project_id);

ALTER TABLE ONLY public.restores
    ADD CONSTRAINT restores_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.schedule_slots
    ADD CONSTRAINT schedule_slots_pkey PRIMARY KEY (schedule, slot);

ALTER TABLE ONLY public.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.schema_migration
    ADD CONSTRAINT schema_migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_hash_key UNIQUE (hash);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sign_in_links
    ADD CONSTRAINT sign_in_links_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY public.snoozes
    ADD CONSTRAINT snoozes_pkey PRIMARY KEY (user_id, task_id);

ALTER TABLE ONLY public.spendings
    ADD CONSTRAINT spendings_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.stock_cards
    ADD CONSTRAINT stock_cards_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.stock_comments
    ADD CONSTRAINT stock_comments_pkey PRIMARY KEY (task_id, card_comment_id);

ALTER TABLE ONLY public.stock_dirty
    ADD CONSTRAINT stock_dirty_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.stock_leases
    ADD CONSTRAINT stock_leases_pkey PRIMARY KEY (task_id, epoch);

ALTER TABLE ONLY public.submissions
    ADD CONSTRAINT submissions_pkey PRIMARY KEY (submitter_id, key);

ALTER TABLE ONLY public.subtask_time_tracking
    ADD CONSTRAINT subtask_time_tracking_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.subtasks
    ADD CONSTRAINT subtasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.swimlanes
    ADD CONSTRAINT swimlanes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.swimlanes
    ADD CONSTRAINT swimlanes_project_id_name_key UNIQUE (project_id, name);

ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tags
    ADD CONSTRAINT tags_project_id_name_key UNIQUE (project_id, name);

ALTER TABLE ONLY public.task_faces
    ADD CONSTRAINT task_faces_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.task_has_external_links
    ADD CONSTRAINT task_has_external_links_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_has_files
    ADD CONSTRAINT task_has_files_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_has_links
    ADD CONSTRAINT task_has_links_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.task_has_links
    ADD CONSTRAINT task_has_links_task_id_link_id_opposite_task_id_key UNIQUE (task_id, link_id, opposite_task_id);

ALTER TABLE ONLY public.task_has_metadata
    ADD CONSTRAINT task_has_metadata_pkey PRIMARY KEY (task_id, name);

ALTER TABLE ONLY public.task_has_tags
    ADD CONSTRAINT task_has_tags_pkey PRIMARY KEY (task_id, tag_id);

ALTER TABLE ONLY public.task_texts
    ADD CONSTRAINT task_texts_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY public.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.told
    ADD CONSTRAINT told_pkey PRIMARY KEY (task_id, kind, occasion, level);

ALTER TABLE ONLY public.turns
    ADD CONSTRAINT turns_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.user_settings
    ADD CONSTRAINT user_settings_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_username_key UNIQUE (username);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_event_id_event_name_key UNIQUE (event_id, event_name);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.worker_reports
    ADD CONSTRAINT worker_reports_pkey PRIMARY KEY (user_id, instance);

CREATE INDEX a2a_tasks_context ON public.a2a_tasks USING btree (owner_id, context);

CREATE UNIQUE INDEX a2a_tasks_current ON public.a2a_tasks USING btree (task_id) WHERE current;

CREATE INDEX a2a_tasks_newest ON public.a2a_tasks USING btree (owner_id, agent_id, changed DESC, id DESC);

CREATE INDEX actions_project ON public.actions USING btree (project_id);

CREATE INDEX approval_deciders_user ON public.approval_deciders USING btree (user_id, approval_id);

CREATE INDEX approvals_gate ON public.approvals USING btree (gate_id) WHERE (gate_id IS NOT NULL);

CREATE UNIQUE INDEX approvals_once ON public.approvals USING btree (requester_id, COALESCE(task_id, (0)::bigint), hash) WHERE (state = 'pending'::text);

CREATE INDEX approvals_pending ON public.approvals USING btree (expires) WHERE (state = 'pending'::text);

CREATE INDEX approvals_requester ON public.approvals USING btree (requester_id, action, id);

CREATE INDEX approvals_task ON public.approvals USING btree (task_id, id) WHERE (task_id IS NOT NULL);

CREATE INDEX approvals_untold ON public.approvals USING btree (id) WHERE ((state <> 'pending'::text) AND (NOT is_told));

CREATE INDEX channels_user ON public.channels USING btree (user_id, id);

CREATE INDEX chunks_at ON public.chunks USING btree (at);

CREATE INDEX comments_task ON public.comments USING btree (task_id, id);

CREATE INDEX credentials_run ON public.credentials USING btree (run_task) WHERE (run_task IS NOT NULL);

CREATE INDEX credentials_user ON public.credentials USING btree (user_id);

CREATE INDEX grants_agent ON public.grants USING btree (agent_id) WHERE (revoked_at IS NULL);

CREATE INDEX group_has_users_user ON public.group_has_users USING btree (user_id);

CREATE INDEX journal_cursor ON ONLY public.journal USING btree (xid, id);

CREATE INDEX journal_task ON ONLY public.journal USING btree (task_id, seq) WHERE (task_id IS NOT NULL);

CREATE INDEX moved_ours ON public.moved USING btree (tbl, ours);

CREATE UNIQUE INDEX outbox_gate ON public.outbox USING btree (user_id, task_id) WHERE (reason = 'gate'::text);

CREATE INDEX outbox_pending ON public.outbox USING btree (due) WHERE (state = 'pending'::text);

CREATE INDEX outbox_user ON public.outbox USING btree (user_id, id);

CREATE INDEX passed_on_until ON public.passed_on USING btree (until);

CREATE INDEX project_has_files_project ON public.project_has_files USING btree (project_id);

CREATE INDEX project_has_groups_group ON public.project_has_groups USING btree (group_id);

CREATE INDEX project_has_users_user ON public.project_has_users USING btree (user_id);

CREATE UNIQUE INDEX projects_email ON public.projects USING btree (email) WHERE (email <> ''::text);

CREATE UNIQUE INDEX projects_identifier ON public.projects USING btree (identifier) WHERE (identifier <> ''::text);

CREATE INDEX projects_name ON public.projects USING btree (name);

CREATE INDEX push_outbox_due ON public.push_outbox USING btree (due);

CREATE UNIQUE INDEX queues_owner ON public.queues USING btree (owner_id);

CREATE INDEX schedule_slots_open ON public.schedule_slots USING btree (schedule, slot) WHERE (state = ANY (ARRAY['due'::text, 'waiting'::text]));

CREATE INDEX sessions_user ON public.sessions USING btree (user_id);

CREATE INDEX spendings_account ON public.spendings USING btree (account, at);

CREATE INDEX stock_leases_live ON public.stock_leases USING btree (task_id) WHERE (NOT ended);

CREATE UNIQUE INDEX subtask_time_tracking_running ON public.subtask_time_tracking USING btree (subtask_id, user_id) WHERE (ended IS NULL);

CREATE INDEX subtasks_task ON public.subtasks USING btree (task_id, "position");

CREATE INDEX task_faces_category ON public.task_faces USING btree (category_id) WHERE (category_id <> 0);

CREATE INDEX task_faces_recurring ON public.task_faces USING btree (task_id) WHERE (recurrence_status = 1);

CREATE INDEX task_has_external_links_task ON public.task_has_external_links USING btree (task_id);

CREATE INDEX task_has_files_task ON public.task_has_files USING btree (task_id);

CREATE INDEX task_has_links_open ON public.task_has_links USING btree (opposite_task_id, task_id) WHERE ((link_id = 3) AND (state = 'open'::text));

CREATE INDEX task_has_links_opposite ON public.task_has_links USING btree (opposite_task_id);

CREATE INDEX task_has_tags_tag ON public.task_has_tags USING btree (tag_id);

CREATE INDEX tasks_a2a_ready ON public.tasks USING btree (project_id) WHERE (a2a AND (status = 'ready'::text));

CREATE INDEX tasks_agent ON public.tasks USING btree (creator_id, date_creation) WHERE by_agent;

CREATE INDEX tasks_agent_open ON public.tasks USING btree (creator_id) WHERE (by_agent AND is_active);

CREATE INDEX tasks_cell ON public.tasks USING btree (project_id, column_id, rank, id) INCLUDE (swimlane_id) WHERE is_active;

CREATE INDEX tasks_closed ON public.tasks USING btree (project_id, id) WHERE (NOT is_active);

CREATE INDEX tasks_dead ON public.tasks USING btree (id) WHERE ((status = 'dead'::text) AND is_active);

CREATE INDEX tasks_delayed ON public.tasks USING btree (date_started) WHERE delayed;

CREATE INDEX tasks_due ON public.tasks USING btree (date_due) WHERE ((date_due IS NOT NULL) AND is_active);

CREATE INDEX tasks_lease ON public.tasks USING btree (owner_id, lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX tasks_parent ON public.tasks USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX tasks_ready ON public.tasks USING btree (lane_id, rank) WHERE ((status = 'ready'::text) AND (open_blockers = 0) AND (NOT delayed));

CREATE INDEX tasks_reference ON public.tasks USING btree (project_id, reference) WHERE (reference <> ''::text);

CREATE INDEX tasks_waiting ON public.tasks USING btree (id) WHERE ((status = 'waiting'::text) AND is_active);

CREATE INDEX webhooks_pending ON public.webhooks USING btree (due) WHERE (state = 'pending'::text);

CREATE TRIGGER a2a_events_push AFTER INSERT ON public.a2a_events FOR EACH ROW WHEN ((new.kind <> 'message'::text)) EXECUTE FUNCTION public.fabric_push();

CREATE TRIGGER restores_end_decisions AFTER INSERT ON public.restores FOR EACH ROW EXECUTE FUNCTION public.fabric_end_decisions();

CREATE CONSTRAINT TRIGGER tasks_a2a AFTER UPDATE ON public.tasks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.a2a AND ((old.status IS DISTINCT FROM new.status) OR (old.flags IS DISTINCT FROM new.flags)))) EXECUTE FUNCTION public.fabric_a2a_follow();

ALTER TABLE ONLY public.a2a_events
    ADD CONSTRAINT a2a_events_a2a_id_fkey FOREIGN KEY (a2a_id) REFERENCES public.a2a_tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.absences
    ADD CONSTRAINT absences_to_id_fkey FOREIGN KEY (to_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.absences
    ADD CONSTRAINT absences_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.action_has_params
    ADD CONSTRAINT action_has_params_action_id_fkey FOREIGN KEY (action_id) REFERENCES public.actions(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.actions
    ADD CONSTRAINT actions_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.approval_deciders
    ADD CONSTRAINT approval_deciders_approval_id_fkey FOREIGN KEY (approval_id) REFERENCES public.approvals(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.approval_deciders
    ADD CONSTRAINT approval_deciders_for_whom_fkey FOREIGN KEY (for_whom) REFERENCES public.users(id);

ALTER TABLE ONLY public.approval_deciders
    ADD CONSTRAINT approval_deciders_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_decided_by_fkey FOREIGN KEY (decided_by) REFERENCES public.users(id);

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_for_whom_fkey FOREIGN KEY (for_whom) REFERENCES public.users(id);

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_requester_id_fkey FOREIGN KEY (requester_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.channels
    ADD CONSTRAINT channels_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.columns
    ADD CONSTRAINT columns_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_created_by_fkey FOREIGN KEY (created_by) REFERENCES public.users(id);

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.digests
    ADD CONSTRAINT digests_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_grantor_id_fkey FOREIGN KEY (grantor_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.group_has_users
    ADD CONSTRAINT group_has_users_group_id_fkey FOREIGN KEY (group_id) REFERENCES public.groups(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.group_has_users
    ADD CONSTRAINT group_has_users_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.lanes
    ADD CONSTRAINT lanes_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.late_results
    ADD CONSTRAINT late_results_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.passed_on
    ADD CONSTRAINT passed_on_by_id_fkey FOREIGN KEY (by_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.passed_on
    ADD CONSTRAINT passed_on_to_id_fkey FOREIGN KEY (to_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.pauses
    ADD CONSTRAINT pauses_by_id_fkey FOREIGN KEY (by_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.policies
    ADD CONSTRAINT policies_by_id_fkey FOREIGN KEY (by_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.project_has_categories
    ADD CONSTRAINT project_has_categories_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_files
    ADD CONSTRAINT project_has_files_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_groups
    ADD CONSTRAINT project_has_groups_group_id_fkey FOREIGN KEY (group_id) REFERENCES public.groups(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_groups
    ADD CONSTRAINT project_has_groups_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_metadata
    ADD CONSTRAINT project_has_metadata_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_users
    ADD CONSTRAINT project_has_users_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.project_has_users
    ADD CONSTRAINT project_has_users_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.push_configs
    ADD CONSTRAINT push_configs_a2a_id_fkey FOREIGN KEY (a2a_id) REFERENCES public.a2a_tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.push_outbox
    ADD CONSTRAINT push_outbox_config_fkey FOREIGN KEY (config) REFERENCES public.push_configs(number) ON DELETE CASCADE;

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_backlog_column_fkey FOREIGN KEY (backlog_column) REFERENCES public.columns(id);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_done_column_fkey FOREIGN KEY (done_column) REFERENCES public.columns(id);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_ready_column_fkey FOREIGN KEY (ready_column) REFERENCES public.columns(id);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_swimlane_id_fkey FOREIGN KEY (swimlane_id) REFERENCES public.swimlanes(id);

ALTER TABLE ONLY public.queues
    ADD CONSTRAINT queues_working_column_fkey FOREIGN KEY (working_column) REFERENCES public.columns(id);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.sign_in_links
    ADD CONSTRAINT sign_in_links_made_by_fkey FOREIGN KEY (made_by) REFERENCES public.users(id);

ALTER TABLE ONLY public.sign_in_links
    ADD CONSTRAINT sign_in_links_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.snoozes
    ADD CONSTRAINT snoozes_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.spendings
    ADD CONSTRAINT spendings_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.subtask_time_tracking
    ADD CONSTRAINT subtask_time_tracking_subtask_id_fkey FOREIGN KEY (subtask_id) REFERENCES public.subtasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.subtasks
    ADD CONSTRAINT subtasks_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.swimlanes
    ADD CONSTRAINT swimlanes_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_faces
    ADD CONSTRAINT task_faces_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_external_links
    ADD CONSTRAINT task_has_external_links_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_files
    ADD CONSTRAINT task_has_files_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_links
    ADD CONSTRAINT task_has_links_link_id_fkey FOREIGN KEY (link_id) REFERENCES public.links(id);

ALTER TABLE ONLY public.task_has_links
    ADD CONSTRAINT task_has_links_opposite_task_id_fkey FOREIGN KEY (opposite_task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_links
    ADD CONSTRAINT task_has_links_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_metadata
    ADD CONSTRAINT task_has_metadata_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_tags
    ADD CONSTRAINT task_has_tags_tag_id_fkey FOREIGN KEY (tag_id) REFERENCES public.tags(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_has_tags
    ADD CONSTRAINT task_has_tags_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.told
    ADD CONSTRAINT told_task_id_fkey FOREIGN KEY (task_id) REFERENCES public.tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.user_settings
    ADD CONSTRAINT user_settings_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES public.users(id);

ALTER TABLE ONLY public.worker_reports
    ADD CONSTRAINT worker_reports_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.users(id);
