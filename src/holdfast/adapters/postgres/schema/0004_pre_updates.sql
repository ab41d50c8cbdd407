-- Functions of updates: questions to runs, and their outcomes.

-- Stores the question of a message that was just delivered, under the lock of its run's row. `question`: the hash of its value
-- and the checksum of its row, in base64.
CREATE OR REPLACE FUNCTION _put_question(target text, sent text, question jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO answers (run, message, asked, outcome, value, blob, checksum)
    SELECT no, sent, decode(question ->> 0, 'base64'), '', '', '', decode(question ->> 1, 'base64')
    FROM runs WHERE id = target
$$;

-- Whether this question was asked before; its message may be gone. The run's row is locked.
CREATE OR REPLACE FUNCTION _is_asked(target text, sent text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM answers WHERE run = (SELECT no FROM runs WHERE id = target) AND message = sent)
$$;

-- Settles questions, each as: message, outcome, value, blob, checksum and, if any, references. The first answer counts. A
-- question that came with an imported run has no row. The run's row is locked.
CREATE OR REPLACE FUNCTION _put_answers(answered bigint, given jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one jsonb;
BEGIN
    INSERT INTO answers AS a (run, message, asked, outcome, value, blob, checksum)
    SELECT answered, x ->> 0, '', x ->> 1, decode(x ->> 2, 'base64'), x ->> 3, decode(x ->> 4, 'base64')
    FROM jsonb_array_elements(given) AS x
    ON CONFLICT (run, message) DO UPDATE SET outcome = excluded.outcome, value = excluded.value, blob = excluded.blob,
        checksum = excluded.checksum
    WHERE a.outcome = '';
    FOR one IN SELECT * FROM jsonb_path_query(given, 'strict $[*] ? (exists (@[5]))') LOOP
        PERFORM _refer(answered, 'answer', 0, one ->> 0, one -> 5);
    END LOOP;
END
$$;

-- refuse_update: settles the question of an unread message without a turn, for the holder of the lease. The message keeps
-- its number and its body, and no program is given it. Locks the run's row. Returns the id of the run, or null.
CREATE OR REPLACE FUNCTION refuse_update(run_no bigint, run_epoch bigint, answer jsonb) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    name text;
BEGIN
    SELECT id INTO name FROM runs WHERE no = run_no AND epoch = run_epoch AND ended_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE inbox SET kind = 'refused', checksum = _checksum(name, id, 'refused', body)
    WHERE run = run_no AND id = answer ->> 0 AND kind = 'update' AND consumed_ordinal IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM _put_answers(run_no, jsonb_build_array(answer));
    RETURN name;
END
$$;
