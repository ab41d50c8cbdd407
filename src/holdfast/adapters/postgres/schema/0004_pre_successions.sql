-- Functions about runs that take the unique value of another, or begin after the end of others.

-- Tells a run that a predecessor has ended, as `core.events.PredecessorEnded`. Locks its row.
CREATE OR REPLACE FUNCTION _precede(at bigint, ended text, successor text) RETURNS text LANGUAGE sql AS $$
    SELECT _deliver(at, successor, 'ended::' || ended, 'child',
        convert_to('{"t":"predecessor","run":' || to_json(ended)::text || '}', 'UTF8'), NULL, NULL, NULL)
$$;

-- Gives a new run its unique value: tells the run that had it (the first of `messages`), if that is open, and makes all runs
-- that must end before it report their ends to it. All their rows are locked. Returns the runs it woke.
CREATE OR REPLACE FUNCTION _succeed(at bigint, made bigint, new jsonb) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    hints text[] := '{}';
    before record;
    name text;
    told jsonb := new #> '{replaces,cancel}';
    is_early boolean := false;
BEGIN
    IF told IS NOT NULL AND _deliver(
        at, told ->> 'run', told ->> 'id', told ->> 'kind', decode(told ->> 'body', 'base64'),
        decode(told ->> 'checksum', 'base64'), NULL, NULL) = 'accepted'
    THEN
        hints := hints || (told ->> 'run');
    END IF;
    FOR name IN SELECT * FROM jsonb_array_elements_text(new -> 'after') LOOP
        SELECT no, ended_at INTO before FROM runs WHERE id = name FOR NO KEY UPDATE;
        IF NOT FOUND OR before.ended_at IS NOT NULL THEN
            PERFORM _precede(at, name, new ->> 'id');
        ELSE
            INSERT INTO adoptions (run, watcher, key, message) VALUES (before.no, new ->> 'id', '', 'ended::' || name)
            ON CONFLICT DO NOTHING;
            UPDATE runs SET is_adopted = true WHERE no = before.no AND NOT is_adopted;
            is_early := true;
        END IF;
    END LOOP;
    IF is_early THEN
        UPDATE runs SET available_at = NULL, ready = NULL WHERE no = made;
    END IF;
    RETURN hints;
END
$$;

-- The runs that have the unique values which these starts may join, as `_lock_for` takes the targets of messages. Their
-- values are locked, so no other start takes one from them meanwhile.
CREATE OR REPLACE FUNCTION _joined(news jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(jsonb_build_object('messages', coalesce(jsonb_agg(jsonb_build_object('run', runs.id)), '[]')))
    FROM jsonb_array_elements(news) AS n
    JOIN uniques AS u ON u.workflow = n ->> 'workflow' AND u.value = n ->> 'unique'
    JOIN runs ON runs.no = u.run AND runs.ended_at IS NULL
    WHERE n ? 'joins'
$$;

-- Gives the input of a new run to the run that has its value, which is locked: delays that run if it is not due yet, or makes
-- it due at once if it takes no more after this; it is not woken. False if it takes no further inputs.
CREATE OR REPLACE FUNCTION _join(at bigint, holder bigint, new jsonb, OUT is_joined boolean, OUT hints text[])
LANGUAGE plpgsql AS $$
DECLARE
    it record;
    gathering record;
    joins jsonb := new -> 'joins';
    begins bigint := (new #>> '{joins,begins_at}')::bigint;
BEGIN
    is_joined := false;
    hints := '{}';
    SELECT no, id, inbox_last, available_at INTO it FROM runs
    WHERE no = holder AND started_at IS NULL AND instance = '' AND version = new ->> 'version';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT room, latest INTO gathering FROM uniques
    WHERE workflow = new ->> 'workflow' AND value = new ->> 'unique' AND room IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM inbox WHERE run = it.no AND id = joins ->> 'message';
    IF FOUND THEN
        is_joined := true;
        RETURN;
    END IF;
    IF gathering.room = 0 THEN
        RETURN;
    END IF;
    INSERT INTO inbox (run, no, id, kind, body, at, checksum)
    VALUES (it.no, it.inbox_last + 1, joins ->> 'message', 'input', decode(joins ->> 'body', 'base64'), _join.at,
        _checksum(it.id, joins ->> 'message', 'input', decode(joins ->> 'body', 'base64')));
    UPDATE runs SET inbox_last = inbox_last + 1, available_at = CASE
        WHEN available_at IS NULL THEN NULL
        WHEN gathering.room = 1 THEN least(available_at, _join.at)
        WHEN available_at > _join.at THEN least(greatest(available_at, begins), gathering.latest)
        ELSE available_at END
    WHERE no = it.no;
    UPDATE uniques SET room = room - 1
    WHERE workflow = new ->> 'workflow' AND value = new ->> 'unique' AND room > 0;
    IF new ? 'blobs' THEN
        PERFORM _keep_blobs(at, new -> 'blobs', 'payload');
    END IF;
    IF new ? 'names' THEN
        PERFORM _refer(it.no, 'message', it.inbox_last + 1, '', new -> 'names');
    END IF;
    IF gathering.room = 1 THEN
        hints := ARRAY[it.id];
    END IF;
    is_joined := true;
END
$$;
