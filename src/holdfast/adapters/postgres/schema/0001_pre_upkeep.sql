-- Snapshots, compaction, retention, the collection of blobs, and duties. Off the path of runs.
--
-- Locks: a run's row FOR KEY SHARE where something comes beside it, which disturbs no commit and keeps retention away. Where
-- something goes, FOR UPDATE, before anything else: what is left is seen by one statement and the rest forgotten by
-- another, and a writer that refers to a blob between the two would lose it. So turns, messages and snapshots of that run
-- wait meanwhile. Retention locks the rows of a tree in the same way, and leaves the tree if one of them is locked.

-- put_snapshot: fenced by the row it covers, and by a later snapshot.
CREATE OR REPLACE FUNCTION put_snapshot(
    given bigint, run_no bigint, of_ordinal bigint, of_checksum bytea, new_body bytea, new_blobs jsonb, names jsonb)
RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
BEGIN
    PERFORM 1 FROM runs WHERE no = run_no FOR KEY SHARE;
    INSERT INTO snapshots (run, ordinal, checksum, body)
    SELECT run, ordinal, checksum, new_body FROM events
    WHERE run = run_no AND ordinal = of_ordinal AND checksum = of_checksum
    ON CONFLICT (run) DO UPDATE SET ordinal = excluded.ordinal, checksum = excluded.checksum, body = excluded.body
    WHERE excluded.ordinal >= snapshots.ordinal;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF new_blobs IS NOT NULL THEN
        PERFORM _lock_blobs(jsonb_build_object('blobs', new_blobs));
        PERFORM _keep_blobs(_now(given), new_blobs, 'segment');
    END IF;
    PERFORM _refer_only(_now(given), run_no, 'snapshot', 0, '', names);
    RETURN true;
END
$$;

-- drop_snapshots: of these runs, or (null) of all. Locks the runs, in order; a snapshot written meanwhile stays.
CREATE OR REPLACE FUNCTION drop_snapshots(given bigint, nos bigint[]) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    locked bigint[];
    dropped bigint[];
    one bigint;
BEGIN
    locked := ARRAY(
        SELECT no FROM runs WHERE no IN (SELECT run FROM snapshots WHERE nos IS NULL OR run = ANY (nos))
        ORDER BY no FOR UPDATE);
    WITH gone AS (DELETE FROM snapshots WHERE run = ANY (locked) RETURNING run)
    SELECT coalesce(array_agg(run ORDER BY run), '{}') INTO dropped FROM gone;
    FOREACH one IN ARRAY dropped LOOP
        PERFORM _refer_only(_now(given), one, 'snapshot', 0, '', NULL);
    END LOOP;
    RETURN cardinality(dropped);
END
$$;

-- compact: fenced by the row it replaces, which is not the newest of its run, and by its segments, which are locked
-- against being collected. Locks the run's row: what comes after the rows that stay waits, and is not overlooked. The ids
-- of consumed messages stay, so that a sender's late retry is recognised. References go with the rows, with the bodies of
-- messages, and with values in whose place another is shown that refers to nothing.
CREATE OR REPLACE FUNCTION compact(
    given bigint, run_no bigint, of_ordinal bigint, of_epoch bigint, of_at bigint, of_checksum bytea,
    new_format integer, new_body bytea, segments bytea[], names jsonb)
RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    gone bigint;
    lost bytea[];
BEGIN
    PERFORM 1 FROM runs WHERE no = run_no FOR UPDATE;
    PERFORM 1 FROM blobs WHERE name = ANY (segments) ORDER BY name FOR KEY SHARE;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < cardinality(segments) THEN
        RETURN 0;
    END IF;
    UPDATE events SET format = new_format, body = new_body
    WHERE run = run_no AND ordinal = of_ordinal AND epoch = of_epoch AND at = of_at AND checksum = of_checksum
        AND ordinal < (SELECT next_ordinal - 1 FROM runs WHERE no = run_no);
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM events WHERE run = run_no AND ordinal < of_ordinal;
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE inbox SET body = '', checksum = _checksum(runs.id, inbox.id, kind, '') FROM runs
    WHERE runs.no = run_no AND run = run_no AND consumed_ordinal <= of_ordinal AND body <> ''
        AND checksum = _checksum(runs.id, inbox.id, kind, body);
    WITH forgotten AS (
        DELETE FROM run_blobs WHERE run = run_no AND (source = 'row' AND number <= of_ordinal
            OR source = 'message' AND number IN (SELECT no FROM inbox WHERE run = run_no AND body = '')
            OR source = 'value' AND name IN (SELECT x.name FROM exposed AS x WHERE x.run = run_no AND NOT x.refers))
        RETURNING blob)
    SELECT array_agg(DISTINCT blob) INTO lost FROM forgotten WHERE NOT coalesce(names, '[]') ? encode(blob, 'hex');
    PERFORM _lose(_now(given), lost);
    IF names IS NOT NULL THEN
        PERFORM _refer(run_no, 'row', of_ordinal, '', names);
    END IF;
    RETURN gone;
END
$$;

-- Whether retention may remove the tree: all of it has ended, the last run long enough ago. A negative default: at any age,
-- even if the root sets its own retention.
CREATE OR REPLACE FUNCTION _is_expired(moment bigint, root_id text, default_keep bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_and(ended_at IS NOT NULL) AND (default_keep < 0 OR max(ended_at)::numeric + (
        SELECT coalesce(keep, default_keep) FROM runs WHERE id = root_id AND root = '') <= moment), false)
    FROM runs WHERE no IN (SELECT no FROM tree_runs WHERE root = root_id)
$$;

-- expired: roots of trees that retention may take, oldest first; `is_more` says that there are roots left to look at.
CREATE OR REPLACE FUNCTION expired(given bigint, default_keep bigint, after_time bigint, after_no bigint, most bigint)
RETURNS TABLE (id text, created_at bigint, no bigint, is_expired boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    moment bigint := _now(given);
BEGIN
    RETURN QUERY
        SELECT r.id, r.created_at, r.no, _is_expired(moment, r.id, default_keep) FROM (
            SELECT runs.id, runs.created_at, runs.no FROM runs
            WHERE (runs.created_at, runs.no) > (after_time, after_no) AND runs.created_at <= moment AND root = ''
                AND ended_at::numeric + coalesce(keep, default_keep) <= moment
            ORDER BY runs.created_at, runs.no LIMIT most) AS r
        ORDER BY r.created_at, r.no;
END
$$;

-- remove_tree: one tree, checked again under its locks. Returns how many runs and rows it removed.
CREATE OR REPLACE FUNCTION remove_tree(given bigint, root_id text, default_keep bigint, OUT runs_gone bigint, OUT rows_gone bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    nos bigint[];
    lost bytea[];
BEGIN
    runs_gone := 0;
    rows_gone := 0;
    nos := ARRAY(
        SELECT no FROM runs WHERE no IN (SELECT no FROM tree_runs WHERE root = root_id) ORDER BY no FOR UPDATE SKIP LOCKED);
    IF cardinality(nos) <> (SELECT count(*) FROM tree_runs WHERE root = root_id)
        OR NOT _is_expired(moment, root_id, default_keep)
    THEN
        RETURN;
    END IF;
    WITH gone AS (DELETE FROM run_blobs WHERE run = ANY (nos) RETURNING blob)
    SELECT array_agg(blob) INTO lost FROM gone;
    PERFORM 1 FROM blobs WHERE name = ANY (lost) ORDER BY name FOR NO KEY UPDATE;
    UPDATE blobs SET at = greatest(at, moment) WHERE name = ANY (lost);
    DELETE FROM events WHERE run = ANY (nos);
    GET DIAGNOSTICS rows_gone = ROW_COUNT;
    DELETE FROM inbox WHERE run = ANY (nos);
    DELETE FROM watchers WHERE run = ANY (nos);
    DELETE FROM adoptions WHERE run = ANY (nos);
    DELETE FROM exposed WHERE run = ANY (nos);
    DELETE FROM answers WHERE run = ANY (nos);
    DELETE FROM attributes WHERE run = ANY (nos);
    DELETE FROM snapshots WHERE run = ANY (nos);
    DELETE FROM streams WHERE run = ANY (nos);
    DELETE FROM stream_spans WHERE run = ANY (nos);
    DELETE FROM uniques WHERE run = ANY (nos);
    DELETE FROM runs WHERE no = ANY (nos);
    GET DIAGNOSTICS runs_gone = ROW_COUNT;
END
$$;

-- loose: blobs that nothing refers to. Reads every row of blobs, but not their bytes.
CREATE OR REPLACE VIEW loose_blobs AS
SELECT name, size, at FROM blobs
WHERE NOT EXISTS (SELECT 1 FROM run_blobs WHERE run_blobs.blob = blobs.name)
    AND NOT EXISTS (SELECT 1 FROM blob_blobs WHERE blob_blobs.blob = blobs.name);

-- collect: removes loose blobs. First locks them, passing over those that a commit refers to or stores just now; then,
-- with a new snapshot, checks that they are still loose. A writer that wants to refer to one meanwhile waits, and finds it
-- gone, or stores it again.
CREATE OR REPLACE FUNCTION collect(given bigint, before bigint, most bigint) RETURNS TABLE (name bytea, size bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    chosen bytea[];
    held bytea[];
BEGIN
    chosen := ARRAY(
        SELECT b.name FROM blobs AS b WHERE b.name IN (
            SELECT l.name FROM loose_blobs AS l WHERE l.at < before ORDER BY l.name LIMIT most)
        ORDER BY b.name FOR UPDATE SKIP LOCKED);
    chosen := ARRAY(SELECT l.name FROM loose_blobs AS l WHERE l.name = ANY (chosen) AND l.at < before);
    WITH gone AS (DELETE FROM blob_blobs AS h WHERE h.holder = ANY (chosen) RETURNING h.blob)
    SELECT array_agg(g.blob) INTO held FROM gone AS g;
    UPDATE blobs AS b SET at = greatest(b.at, moment) WHERE b.name = ANY (held);
    RETURN QUERY DELETE FROM blobs AS b WHERE b.name = ANY (chosen) RETURNING b.name, b.size;
END
$$;

-- take_duty: succeeds if the duty is free, ours or expired.
CREATE OR REPLACE FUNCTION take_duty(given_boot text, given_second bigint, wanted text, own text, ttl bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    second bigint := _second(given_second);
BEGIN
    INSERT INTO duties AS d (duty, holder, lease_boot, expires) VALUES (wanted, own, coalesce(given_boot, ''), second + ttl)
    ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, lease_boot = excluded.lease_boot, expires = excluded.expires
    WHERE d.holder = excluded.holder OR d.lease_boot <> excluded.lease_boot OR d.expires <= second;
    RETURN FOUND;
END
$$;

-- read_tree: rows of a tree from a seq on, as far as they are final, and whether there are more that are not.
CREATE OR REPLACE FUNCTION read_tree(root_id text, from_seq bigint, most bigint)
RETURNS TABLE (run text, ordinal integer, epoch integer, at bigint, format smallint, checksum bytea, body bytea, seq bigint,
    is_final boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    -- Before the rows are read: what ends in between counts as under way.
    horizon bigint := _horizon();
BEGIN
    RETURN QUERY
        SELECT t.id, e.ordinal, e.epoch, e.at, e.format, e.checksum, e.body, e.seq, e.seq < horizon
        FROM tree_runs AS t JOIN events AS e ON e.run = t.no
        WHERE t.root = root_id AND e.seq >= from_seq ORDER BY e.seq LIMIT most;
END
$$;

-- settle: identifies this cluster of servers, and where its transactions are counted from. After the store was copied into
-- another cluster, whose transactions have smaller numbers, they are counted from beyond the greatest seq there is.
CREATE OR REPLACE FUNCTION settle() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    this_cluster bigint := (SELECT system_identifier FROM pg_control_system());
BEGIN
    PERFORM 1 FROM meta WHERE name = 'cluster' AND value = this_cluster;
    IF FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE events IN EXCLUSIVE MODE;
    INSERT INTO meta (name, value) VALUES ('cluster', this_cluster), ('first_seq', greatest(0,
        (SELECT coalesce(max(seq), 0) >> 20 FROM events) + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
END
$$;

-- keep_blob: one blob by itself, and what its bytes refer to. Locks its row.
CREATE OR REPLACE FUNCTION keep_blob(
    given bigint, new_name bytea, new_kind text, new_size bigint, new_data bytea, names bytea[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
BEGIN
    INSERT INTO blobs AS b (name, kind, at, size, data) VALUES (new_name, new_kind, _now(given), new_size, new_data)
    ON CONFLICT (name) DO UPDATE SET at = greatest(b.at, excluded.at);
    INSERT INTO blob_blobs (holder, blob)
    SELECT new_name, name FROM (SELECT name FROM blobs WHERE name = ANY (names) ORDER BY name FOR KEY SHARE) AS there
    ON CONFLICT DO NOTHING;
END
$$;
