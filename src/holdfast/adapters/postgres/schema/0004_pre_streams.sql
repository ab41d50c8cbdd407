-- The tables of the fourth number. Code of the third number still runs: it sends to no stream.

-- Streams: one row for parts that were sent together, from one offset to just before another. `step` is empty for parts that
-- the workflow's own code sent. Spans hold the outcome of an attempt that sent parts, and between which offsets they lie.
CREATE TABLE streams (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    first_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    step text NOT NULL,
    attempt bigint NOT NULL,
    epoch bigint NOT NULL,
    parts bytea NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (run, name, first_offset)
);
CREATE TABLE stream_spans (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    end_offset bigint NOT NULL,
    first_offset bigint NOT NULL,
    step text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    is_completed boolean NOT NULL,
    PRIMARY KEY (run, name, end_offset, first_offset, step, attempt)
);

-- The offset after the last part of a stream. The caller holds the lock of the run's row, so it cannot change.
CREATE OR REPLACE FUNCTION _stream_end(of_run bigint, of_name text) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((
        SELECT end_offset FROM streams WHERE run = of_run AND name = of_name ORDER BY first_offset DESC LIMIT 1), 0)
$$;

-- Writes the stream rows of a turn, under the lock of its run's row: parts of the workflow's own code as [name, attempt,
-- count, parts, checksum], then outcomes of attempts as [name, end, first, step, attempt, is_completed].
CREATE OR REPLACE FUNCTION _stream(turn_no bigint, many jsonb, spans jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one jsonb;
    last bigint;
BEGIN
    FOR one IN SELECT * FROM jsonb_array_elements(many) LOOP
        last := _stream_end(turn_no, one ->> 0);
        INSERT INTO streams (run, name, first_offset, end_offset, step, attempt, epoch, parts, checksum)
        SELECT turn_no, one ->> 0, last, last + (one ->> 2)::bigint, '', (one ->> 1)::bigint, epoch,
            decode(one ->> 3, 'base64'), decode(one ->> 4, 'base64')
        FROM runs WHERE no = turn_no;
    END LOOP;
    INSERT INTO stream_spans (run, name, end_offset, first_offset, step, attempt, is_completed)
    SELECT turn_no, s ->> 0, (s ->> 1)::bigint, (s ->> 2)::bigint, s ->> 3, (s ->> 4)::bigint, (s ->> 5)::boolean
    FROM jsonb_array_elements(spans) AS s
    ON CONFLICT DO NOTHING;
END
$$;

-- append_parts: rows of streams, in their order. code 0 appended · 1 the stream ends elsewhere, at `ends` · 2 closed: the
-- run has ended, is gone, or has another epoch. After a code 1 every later row of that stream has it too.
-- Locks the runs, in the order of their numbers, as turns do: so a claim or an end comes before or after, and writers of
-- one stream wait for each other. Changes no row of a run.
CREATE OR REPLACE FUNCTION append_parts(
    nos bigint[], epochs bigint[], names text[], firsts bigint[], counts bigint[], steps text[], attempts bigint[],
    packed bytea[], checksums bytea[], OUT codes integer[], OUT ends bigint[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    refused text[] := '{}';
    stream text;
    last bigint;
BEGIN
    PERFORM 1 FROM runs WHERE no = ANY (nos) ORDER BY no FOR NO KEY UPDATE;
    codes := array_fill(2, ARRAY[cardinality(nos)]);
    ends := array_fill(0::bigint, ARRAY[cardinality(nos)]);
    FOR place IN 1 .. cardinality(nos) LOOP
        PERFORM 1 FROM runs WHERE no = nos[place] AND epoch = epochs[place] AND ended_at IS NULL;
        CONTINUE WHEN NOT FOUND;
        stream := nos[place] || ' ' || names[place];
        last := _stream_end(nos[place], names[place]);
        ends[place] := last;
        IF last = firsts[place] AND NOT stream = ANY (refused) THEN
            INSERT INTO streams (run, name, first_offset, end_offset, step, attempt, epoch, parts, checksum)
            VALUES (nos[place], names[place], last, last + counts[place], steps[place], attempts[place], epochs[place],
                packed[place], checksums[place]);
            codes[place] := 0;
            CONTINUE;
        END IF;
        PERFORM 1 FROM streams
        WHERE run = nos[place] AND name = names[place] AND first_offset = firsts[place] AND epoch = epochs[place]
            AND checksum = checksums[place];
        IF FOUND THEN
            codes[place] := 0;
        ELSE
            codes[place] := 1;
            refused := refused || stream;
        END IF;
    END LOOP;
END
$$;

-- read_parts: first a row about the run (kind 0: its epoch, whether it has ended), then rows of the stream that hold
-- offsets from `wanted` on (kind 1), then the spans that touch them (kind 2); nothing if there is no such run. STABLE, so
-- all of it is of one moment. Locks nothing.
CREATE OR REPLACE FUNCTION read_parts(of_run text, of_name text, wanted bigint, most bigint)
RETURNS TABLE (kind integer, first_offset bigint, end_offset bigint, step text, attempt bigint, epoch bigint,
    parts bytea, checksum bytea, is_true boolean)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    of_no bigint;
    low bigint;
    high bigint;
BEGIN
    SELECT 0, r.no, r.epoch, r.ended_at IS NOT NULL INTO kind, of_no, read_parts.epoch, is_true FROM runs AS r
    WHERE r.id = of_run;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN NEXT;
    SELECT coalesce(max(s.first_offset), 0) INTO low FROM streams AS s
    WHERE s.run = of_no AND s.name = of_name AND s.first_offset <= wanted;
    kind := 1;
    FOR first_offset, end_offset, step, attempt, epoch, parts, checksum IN
        SELECT s.first_offset, s.end_offset, s.step, s.attempt, s.epoch, s.parts, s.checksum FROM streams AS s
        WHERE s.run = of_no AND s.name = of_name AND s.first_offset >= low AND s.end_offset > wanted
        ORDER BY s.first_offset LIMIT most
    LOOP
        high := read_parts.end_offset;
        RETURN NEXT;
    END LOOP;
    IF high IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT 2, p.first_offset, p.end_offset, p.step, p.attempt, 0::bigint, NULL::bytea, NULL::bytea,
        p.is_completed
    FROM stream_spans AS p
    WHERE p.run = of_no AND p.name = of_name AND p.end_offset > low AND p.first_offset < high
    ORDER BY p.end_offset, p.first_offset, p.step, p.attempt;
END
$$;
