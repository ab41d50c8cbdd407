-- The function of the fifth number. Code of the fourth number still runs: it reads what was rewritten, except for journals
-- with an event that it does not know, which it leaves alone.

-- rewrite: other contents in the place of what is kept of an ended run, see `ports.rewritten`. Fenced by its newest row, by
-- the ordinals of its rows, and by its last message. Locks the run's row, then blobs, in order. `many` holds `rows` as
-- [ordinal, format, checksum, body], `attributes` by name, `messages` as [number, body, checksum], `shown` as [name, value,
-- blob, checksum, refers], `answers` as [message, asked, value, blob, checksum], `parts` as [name, first, parts, checksum],
-- `references` as [source, number, name, blobs], and new `blobs` and `segments`.
CREATE OR REPLACE FUNCTION rewrite(given bigint, run_no bigint, after bytea, last_message bigint, many jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    one jsonb;
    lost bytea[];
BEGIN
    PERFORM 1 FROM runs WHERE no = run_no AND ended_at IS NOT NULL AND inbox_last = last_message FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM events JOIN runs ON runs.no = events.run AND events.ordinal = runs.next_ordinal - 1
    WHERE run = run_no AND checksum = after;
    IF NOT FOUND OR ARRAY(SELECT ordinal::bigint FROM events WHERE run = run_no ORDER BY ordinal)
        <> ARRAY(SELECT (r ->> 0)::bigint FROM jsonb_array_elements(many -> 'rows') AS r ORDER BY 1)
    THEN
        RETURN false;
    END IF;
    PERFORM _lock_blobs(jsonb_build_array(
        jsonb_build_object('blobs', many -> 'blobs'), jsonb_build_object('blobs', many -> 'segments')));
    PERFORM _keep_blobs(moment, many -> 'blobs', 'payload');
    PERFORM _keep_blobs(moment, many -> 'segments', 'segment');
    UPDATE events SET format = (r ->> 1)::integer, checksum = decode(r ->> 2, 'base64'), body = decode(r ->> 3, 'base64')
    FROM jsonb_array_elements(many -> 'rows') AS r WHERE run = run_no AND ordinal = (r ->> 0)::bigint;
    UPDATE runs SET input_hash = '' WHERE no = run_no;
    UPDATE attributes SET value = a.value FROM jsonb_each_text(many -> 'attributes') AS a(name, value)
    WHERE run = run_no AND attributes.name = a.name;
    UPDATE inbox SET body = decode(m ->> 1, 'base64'), checksum = decode(m ->> 2, 'base64')
    FROM jsonb_array_elements(many -> 'messages') AS m WHERE run = run_no AND inbox.no = (m ->> 0)::bigint;
    UPDATE exposed SET value = decode(x ->> 1, 'base64'), blob = x ->> 2, checksum = decode(x ->> 3, 'base64'),
        refers = (x ->> 4)::boolean
    FROM jsonb_array_elements(many -> 'shown') AS x WHERE run = run_no AND name = x ->> 0;
    UPDATE answers SET asked = decode(q ->> 1, 'base64'), value = decode(q ->> 2, 'base64'), blob = q ->> 3,
        checksum = decode(q ->> 4, 'base64')
    FROM jsonb_array_elements(many -> 'answers') AS q WHERE run = run_no AND message = q ->> 0;
    UPDATE streams SET parts = decode(p ->> 2, 'base64'), checksum = decode(p ->> 3, 'base64')
    FROM jsonb_array_elements(many -> 'parts') AS p
    WHERE run = run_no AND name = p ->> 0 AND first_offset = (p ->> 1)::bigint;
    DELETE FROM snapshots WHERE run = run_no;
    DELETE FROM uniques WHERE run = run_no;
    WITH gone AS (DELETE FROM run_blobs WHERE run = run_no RETURNING blob)
    SELECT array_agg(DISTINCT blob) INTO lost FROM gone;
    PERFORM _lose(moment, lost);
    FOR one IN SELECT * FROM jsonb_array_elements(many -> 'references') LOOP
        PERFORM _refer(run_no, one ->> 0, (one ->> 1)::bigint, one ->> 2, one -> 3);
    END LOOP;
    RETURN true;
END
$$;
