-- Turns written in a transaction that holds writes of the user's too.

-- commit_within: one turn, at the end of such a transaction, under a savepoint. Locks as `commit_one` does.
--
-- The transaction may have got its number long before the last turns of this run were written. So the rows take the
-- number of the subtransaction, which is given out by the first write here: in a run, seq rises all the same. It is
-- above the number of the transaction itself, so the horizon of readers, the oldest transaction under way, covers it.
--
-- The first write is the fence. A turn that is stored already is refused like any other: the writes of this transaction
-- would be done twice. From here on the run's row is locked, so a client that never says COMMIT is not waited for long.
-- Codes as of `_turn`.
CREATE OR REPLACE FUNCTION commit_within(
    given bigint, turn_no bigint, turn_epoch bigint, turn_ordinal bigint, turn_at bigint, turn_format integer,
    turn_checksum bytea, turn_body bytea, new_workflow text, new_version text, new_status text, new_doing bytea,
    new_started bigint, new_updated bigint, new_ended bigint, seen bigint, flags integer, turn_after bytea,
    until bigint, extra jsonb, known jsonb, OUT code integer, OUT first bigint, OUT second bigint, OUT hints text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    whole bigint := pg_current_xact_id()::text::bigint;
    part bigint;
BEGIN
    IF extra IS NOT NULL OR flags & 2 > 0 THEN
        PERFORM _lock_for(
            ARRAY[turn_no], CASE WHEN flags & 2 > 0 THEN ARRAY[turn_no] END, jsonb_build_array(extra));
    END IF;
    UPDATE runs SET next_ordinal = next_ordinal
    WHERE no = turn_no AND epoch = turn_epoch AND next_ordinal = turn_ordinal
    RETURNING xmin::text::bigint INTO part;
    IF NOT FOUND THEN
        code := 1;
        SELECT epoch, next_ordinal INTO first, second FROM runs WHERE no = turn_no;
        first := coalesce(first, 0);
        second := coalesce(second, 0);
        RETURN;
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', '15s', true);
    part := whole + ((part - whole) & 4294967295);  -- xmin has 32 bits
    PERFORM set_config(
        _seq_setting(), ((SELECT value FROM meta WHERE name = 'first_seq') + part << 20)::text, true);
    SELECT * INTO code, first, second, hints FROM _turn(
        _now(given), turn_no, turn_epoch, turn_ordinal, turn_at, turn_format, turn_checksum, turn_body, new_workflow,
        new_version, new_status, new_doing, new_started, new_updated, new_ended, seen, flags, turn_after, until,
        extra, known);
END
$$;

-- check_lent: refuses whatever ends with this statement unless the transaction is still the one that was lent. Its
-- borrower may have ended that by a COMMIT or ROLLBACK of their own, and the driver begun another; the mark that the
-- first began with ended with it. Locks nothing.
CREATE OR REPLACE FUNCTION check_lent() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('holdfast.is_lent', true), '') = '' THEN
        RAISE EXCEPTION 'the transaction that was lent is over' USING ERRCODE = 'HF002';
    END IF;
END
$$;

-- outcome_of: the outcome of a turn whose COMMIT was sent but not answered. Waits for the lock of the run's row: the
-- first transaction may still be on its way, and it holds that lock until it has ended.
-- Codes as of `_turn`; 3: it is not there, and never will be.
CREATE OR REPLACE FUNCTION outcome_of(turn_no bigint, turn_epoch bigint, turn_ordinal bigint, turn_checksum bytea,
    OUT code integer, OUT first bigint, OUT second bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    there record;
BEGIN
    SELECT epoch, next_ordinal, inbox_last INTO there FROM runs WHERE no = turn_no FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        code := 1; first := 0; second := 0;
        RETURN;
    END IF;
    SELECT seq INTO first FROM events
    WHERE run = turn_no AND ordinal = turn_ordinal AND epoch = turn_epoch AND checksum = turn_checksum;
    IF FOUND THEN
        code := 0; second := there.inbox_last;
    ELSIF (there.epoch, there.next_ordinal) = (turn_epoch, turn_ordinal) THEN
        code := 3;
    ELSE
        code := 1; first := there.epoch; second := there.next_ordinal;
    END IF;
END
$$;
