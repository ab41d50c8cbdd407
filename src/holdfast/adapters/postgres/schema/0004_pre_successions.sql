-- Functions about runs that take the unique value of another, or begin after the end of others.

-- Tells a run that one which had to end before it begins has ended, as `core.events.PredecessorEnded`. Locks its row.
CREATE OR REPLACE FUNCTION _precede(at bigint, ended text, successor text) RETURNS text LANGUAGE sql AS $$
    SELECT _deliver(at, successor, 'ended::' || ended, 'child',
        convert_to('{"t":"predecessor","run":' || to_json(ended)::text || '}', 'UTF8'), NULL, NULL, NULL)
$$;

-- A run just made has a unique value now: the run that had it is told (`messages`, the first), if it is still open, and
-- those that must end before it begins tell it of their ends. The rows of all of them are locked. Returns whom it woke.
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
