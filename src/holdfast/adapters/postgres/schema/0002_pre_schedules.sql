-- Schedules. `body` is what `core.schedule` knows; the columns are what the store searches by. A schedule with no slot
-- ahead has no `next_at` and is not in the index.
CREATE TABLE schedules (
    name text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL,
    next_at bigint,
    workflow text NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_at, name) WHERE next_at IS NOT NULL;

-- due_schedules: schedules that are due by the server's clock, the most overdue first; then a row without a name that says
-- when the next one is due, if any. Reads no more of the index than needed. Locks nothing.
CREATE OR REPLACE FUNCTION due_schedules(given bigint, most bigint)
RETURNS TABLE (moment bigint, name text, revision bigint, next_at bigint, workflow text, body bytea)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found_rows bigint;
BEGIN
    moment := _now(given);
    RETURN QUERY SELECT due_schedules.moment, s.name, s.revision, s.next_at, s.workflow, s.body FROM schedules AS s
    WHERE s.next_at <= due_schedules.moment ORDER BY s.next_at, s.name LIMIT most;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    name := NULL;
    SELECT s.next_at INTO next_at FROM schedules AS s
    WHERE s.next_at IS NOT NULL ORDER BY s.next_at, s.name LIMIT 1 OFFSET found_rows;
    RETURN NEXT;
END
$$;

-- move_schedule: writes the row if it has the expected revision (0: no row), then new runs, then messages. An empty body
-- removes it. Null: it had a different revision, and nothing was written.
-- Locks the schedule's row first, then what `create_runs` and `send_messages` lock. No transaction
-- that holds one of those waits for a schedule, so no deadlock can form.
CREATE OR REPLACE FUNCTION move_schedule(
    given bigint, wanted text, expected bigint, new_next bigint, new_workflow text, new_body bytea, news jsonb,
    messages jsonb)
RETURNS TABLE (is_moved boolean, made text[], woken text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    created record;
    answers text[];
BEGIN
    made := '{}';
    woken := '{}';
    IF expected = 0 THEN
        INSERT INTO schedules VALUES (wanted, 1, new_next, new_workflow, new_body) ON CONFLICT DO NOTHING;
    ELSIF new_body = ''::bytea THEN
        DELETE FROM schedules WHERE name = wanted AND revision = expected;
    ELSE
        UPDATE schedules SET revision = expected + 1, next_at = new_next, workflow = new_workflow, body = new_body
        WHERE name = wanted AND revision = expected;
    END IF;
    is_moved := FOUND;
    IF NOT is_moved THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF news IS NOT NULL THEN
        FOR created IN SELECT c.code, c.hints, (c.run).id AS id FROM create_runs(given, news, false, NULL) AS c LOOP
            IF created.code = 0 THEN
                made := made || created.id;
                woken := woken || created.hints;
            END IF;
        END LOOP;
    END IF;
    IF messages IS NOT NULL THEN
        answers := send_messages(given, messages);
        woken := woken || ARRAY(
            SELECT m.one ->> 'run' FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (one, place)
            WHERE answers[m.place] = 'accepted');
    END IF;
    RETURN NEXT;
END
$$;
