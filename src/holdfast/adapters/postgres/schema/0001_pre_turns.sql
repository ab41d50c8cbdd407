-- Functions of the write path: turns, new runs, messages. One call is one transaction and one round trip, and every
-- statement in it takes a snapshot of its own, so what another transaction committed while we waited for a lock is seen.
-- The server keeps plans for each session, even a borrowed one: the client has nothing to prepare.
--
-- Locks: rows of `runs`, first all of them in the order of their numbers (FOR NO KEY UPDATE), then the work. Two batches
-- that share rows therefore wait for each other and never in a circle. Then the blobs they bring, in the order of their
-- names. Functions that begin with an underscore are called by the others, under their locks and settings.

-- Microseconds since 1970 by the server's clock; by the given one if there is one (tests).
CREATE OR REPLACE FUNCTION _now(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- A text that goes between two halves of an encoded event, as JSON.
CREATE OR REPLACE FUNCTION _filled(halves jsonb, key text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT decode(halves ->> 0, 'base64') || convert_to(to_json(key)::text, 'UTF8') || decode(halves ->> 1, 'base64')
$$;

-- The setting that holds the last seq of this transaction, and ends with it. Each store has its own: a caller's
-- transaction may join several of one database, and they need not count from the same number.
CREATE OR REPLACE FUNCTION _seq_setting() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'holdfast.seq_' || 'meta'::regclass::oid $$;

-- The seq of the next row of this transaction: 43 bits for the transaction, counted from where the store began in this
-- cluster of servers (`settle`), and 20 for the row. `rows`: how many are taken.
CREATE OR REPLACE FUNCTION _next_seq(rows integer DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last text := current_setting(_seq_setting(), true);
    seq bigint;
BEGIN
    IF last IS NULL OR last = '' THEN
        seq := ((SELECT value FROM meta WHERE name = 'first_seq') + pg_current_xact_id()::text::bigint << 20) + 1;
    ELSE
        seq := last::bigint + 1;
    END IF;
    PERFORM set_config(_seq_setting(), (seq + rows - 1)::text, true);
    RETURN seq;
END
$$;

-- Rows below this seq are final: every transaction that could write one has ended.
CREATE OR REPLACE FUNCTION _horizon() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT value FROM meta WHERE name = 'first_seq')
        + pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
$$;

-- Stores the bytes under their names, in the order of the names, and what they refer to. Stored again a blob is as if it
-- were new, so that its grace starts again. Locks these rows of blobs.
CREATE OR REPLACE FUNCTION _keep_blobs(at bigint, many jsonb, new_kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO blobs (name, kind, at, size, data)
    SELECT decode(one ->> 0, 'hex'), CASE WHEN (one ->> 4)::boolean THEN 'definition' ELSE new_kind END, _keep_blobs.at,
        (one ->> 2)::bigint, decode(one ->> 1, 'base64')
    FROM jsonb_array_elements(many) AS one ORDER BY 1
    ON CONFLICT (name) DO UPDATE SET at = greatest(blobs.at, excluded.at);
    IF many @? '$[*][3][*]' THEN  -- what is named is locked against being collected, as `_refer` does it
        WITH there AS MATERIALIZED (
            SELECT name FROM blobs WHERE name IN (
                SELECT decode(n #>> '{}', 'hex') FROM jsonb_path_query(many, '$[*][3][*]') AS n)
            ORDER BY name FOR KEY SHARE)
        INSERT INTO blob_blobs (holder, blob)
        SELECT DISTINCT decode(one ->> 0, 'hex'), there.name
        FROM jsonb_array_elements(many) AS one, jsonb_array_elements_text(one -> 3) AS n, there
        WHERE there.name = decode(n, 'hex')
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;

-- That part of the run (see the table) refers to these blobs too, as far as they are there: a reference may be older than
-- its blob's removal. Locks them against being collected, until the transaction ends.
CREATE OR REPLACE FUNCTION _refer(referring bigint, of_source text, of_number bigint, of_name text, names jsonb)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO run_blobs (run, source, number, name, blob)
    SELECT referring, of_source, of_number, of_name, there.name FROM (
        SELECT name FROM blobs WHERE name IN (SELECT decode(n, 'hex') FROM jsonb_array_elements_text(names) AS n)
        ORDER BY name FOR KEY SHARE) AS there
    ON CONFLICT DO NOTHING
$$;

-- Those that lost a reference: their grace begins. Locks them, in order.
CREATE OR REPLACE FUNCTION _lose(at bigint, lost bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(lost) > 0 THEN
        PERFORM 1 FROM blobs WHERE name = ANY (lost) ORDER BY name FOR NO KEY UPDATE;
        UPDATE blobs SET at = greatest(blobs.at, _lose.at) WHERE name = ANY (lost);
    END IF;
END
$$;

-- Sets which blobs a part of the run refers to (null: none). The caller may write that part.
CREATE OR REPLACE FUNCTION _refer_only(
    at bigint, referring bigint, of_source text, of_number bigint, of_name text, names jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lost bytea[];
BEGIN
    WITH gone AS (
        DELETE FROM run_blobs WHERE run = referring AND source = of_source AND number = of_number AND name = of_name
            AND NOT coalesce(names, '[]') ? encode(blob, 'hex')
        RETURNING blob)
    SELECT array_agg(blob) INTO lost FROM gone;
    PERFORM _lose(at, lost);
    IF names IS NOT NULL THEN
        PERFORM _refer(referring, of_source, of_number, of_name, names);
    END IF;
END
$$;

-- What the end of a run refers to: what its event says and, of a run that is older than that, all that the run does.
CREATE OR REPLACE FUNCTION _end_references(ended bigint, halves jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce(halves -> 2, '[]') || coalesce(jsonb_agg(encode(blob, 'hex')), '[]')
    FROM run_blobs WHERE run = ended AND source = 'run'
$$;

-- The checksum of a message, as `core.checksums.message_checksum` has it: parts with their lengths, the last one empty.
CREATE OR REPLACE FUNCTION _checksum(target text, message text, message_kind text, message_body bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(sha256(
        convert_to(octet_length(target) || ':' || target || octet_length(message) || ':' || message
            || octet_length(message_kind) || ':' || message_kind || octet_length(message_body) || ':', 'UTF8')
        || message_body || '0:'::bytea) FROM 1 FOR 16)
$$;

-- A message: stored under the run's next number, and the run woken, unless a worker holds it (and learns of the message
-- from its next commit) or it is paused; at the gate of a queue it stays, unless it is cancelled or paused. Locks the run's row. Says: accepted, repeat, missing, or the status it ended in.
-- `given_sum`: its checksum by the sender; null if it was filled in here.
CREATE OR REPLACE FUNCTION _deliver(
    at bigint, target text, message text, message_kind text, message_body bytea, given_sum bytea, blobs jsonb, names jsonb)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    SELECT no, status, inbox_last INTO run FROM runs WHERE id = target FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    PERFORM 1 FROM inbox WHERE inbox.run = run.no AND id = message;
    IF FOUND THEN
        RETURN 'repeat';
    END IF;
    IF run.status IN ('completed', 'failed', 'cancelled') THEN
        RETURN run.status;
    END IF;
    INSERT INTO inbox (run, no, id, kind, body, at, checksum)
    VALUES (run.no, run.inbox_last + 1, message, message_kind, message_body, _deliver.at,
        coalesce(given_sum, _checksum(target, message, message_kind, message_body)));
    UPDATE runs SET inbox_last = run.inbox_last + 1, available_at = least(coalesce(available_at, _deliver.at), _deliver.at),
        ready = CASE
            WHEN instance <> '' OR status NOT IN ('pending', 'running') THEN ready
            WHEN gated = 1 AND message_kind NOT IN ('cancel', 'pause') AND ready IS DISTINCT FROM 1 THEN 2
            ELSE 1 END
    WHERE no = run.no;
    IF blobs IS NOT NULL THEN
        PERFORM _keep_blobs(at, blobs, 'payload');
    END IF;
    IF names IS NOT NULL THEN
        PERFORM _refer(run.no, 'message', run.inbox_last + 1, '', names);
    END IF;
    RETURN 'accepted';
END
$$;

-- A publication: a message to every current wait on the topic, oldest first. Returns all its runs, and those it woke.
CREATE OR REPLACE FUNCTION _publish(at bigint, publication jsonb, OUT reached text[], OUT woken text[]) LANGUAGE plpgsql AS $$
DECLARE
    wait record;
BEGIN
    reached := '{}';
    woken := '{}';
    FOR wait IN
        SELECT runs.id, watchers.key FROM watchers JOIN runs ON runs.no = watchers.run
        WHERE watchers.topic = publication ->> 'topic' ORDER BY watchers.no
    LOOP
        IF NOT wait.id = ANY (reached) THEN
            reached := reached || wait.id;
        END IF;
        IF _deliver(
            at, wait.id, (publication ->> 'id') || '/' || wait.key, 'topic',
            _filled(publication -> 'halves', wait.key), NULL, publication -> 'blobs', publication -> 'names') = 'accepted'
        THEN
            woken := woken || wait.id;
        END IF;
    END LOOP;
END
$$;

-- A new run and the first row of its journal; null if the id is in use, in which case its user has committed.
-- `turn` (as `_first_turn` takes it) comes with it if the run can be made already claimed, and the turn keeps the lease and
-- brings nothing: then the run's row is written once, as the turn leaves it (flags of `_turn`), and `begun` is the turn's
-- seq.
-- Locks no row that exists.
CREATE OR REPLACE FUNCTION _insert_run(
    at bigint, new jsonb, new_instance text, new_worker text, turn jsonb DEFAULT NULL,
    OUT made bigint, OUT is_hint boolean, OUT begun bigint)
LANGUAGE plpgsql AS $$
DECLARE
    it record;
    is_due boolean;
    is_gated boolean;
    is_claimed boolean;
    goes_on boolean;
    first_seq bigint;
BEGIN
    SELECT * INTO it FROM jsonb_to_record(new) AS x(
        id text, at bigint, format integer, checksum text, body text, doing text, input_hash text, workflow text,
        version text, code text, codec text, queue text, priority bigint, key text, available_at bigint, deadline bigint,
        parent text, parent_key text, root text, keep bigint, attributes jsonb, blobs jsonb, names jsonb, share text,
        rides boolean);
    LOCK TABLE runs IN ROW EXCLUSIVE MODE;  -- from here on no queue gets its first rules (`change_queue`)
    is_gated := it.rides IS NULL
        AND (it.share IS NOT NULL OR EXISTS (SELECT 1 FROM queues WHERE name = it.queue AND queues.is_gated));
    is_due := coalesce(it.available_at <= _insert_run.at, true);
    IF is_gated AND NOT is_due AND NOT EXISTS (SELECT 1 FROM queues WHERE name = it.queue) THEN
        INSERT INTO queues (name) VALUES (it.queue) ON CONFLICT DO NOTHING;  -- claims look there for who comes to a gate
    END IF;
    is_claimed := is_due AND new_instance <> '' AND NOT is_gated;
    goes_on := coalesce(
        is_claimed AND turn -> 18 = 'null' AND (turn ->> 15)::integer & 27 = 16
        AND (turn ->> 1, turn ->> 2) = ('1', '2'), false);
    INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready, queue,
        priority, worker, key, input_hash, parent, parent_key, root, code, codec, deadline, created_at, started_at,
        updated_at, ended_at, keep, doing, gated, share)
    VALUES (it.id, is_claimed::int, 2 + goes_on::int, CASE WHEN goes_on THEN turn ->> 9 ELSE 'pending' END,
        CASE WHEN goes_on THEN turn ->> 7 ELSE it.workflow END, CASE WHEN goes_on THEN turn ->> 8 ELSE it.version END,
        (is_claimed AND NOT (goes_on AND (turn ->> 15)::integer & 4 > 0))::int,
        CASE WHEN is_claimed THEN new_instance ELSE '' END, coalesce(it.available_at, _insert_run.at),
        CASE WHEN is_claimed THEN NULL ELSE is_due::int * (1 + is_gated::int) END, it.queue, it.priority,
        CASE WHEN is_claimed THEN new_worker ELSE '' END, it.key, it.input_hash, it.parent, it.parent_key,
        CASE WHEN it.root = it.id THEN '' ELSE it.root END, it.code, it.codec, it.deadline, it.at,
        CASE WHEN goes_on THEN (turn ->> 11)::bigint END,
        CASE WHEN goes_on THEN (turn ->> 12)::bigint ELSE it.at END,
        CASE WHEN goes_on THEN (turn ->> 13)::bigint END, it.keep,
        decode(CASE WHEN goes_on THEN turn ->> 10 ELSE it.doing END, 'base64'), is_gated::int,
        CASE WHEN is_gated THEN coalesce(it.share, it.workflow) ELSE coalesce(it.share, '') END)
    ON CONFLICT (id) DO NOTHING RETURNING no INTO made;
    IF made IS NULL THEN
        RETURN;
    END IF;
    IF it.blobs IS NOT NULL THEN
        PERFORM _keep_blobs(at, it.blobs, 'payload');
    END IF;
    first_seq := _next_seq(1 + goes_on::int);
    INSERT INTO events (seq, run, ordinal, epoch, at, format, checksum, body)
    VALUES (first_seq, made, 1, 0, it.at, it.format, decode(it.checksum, 'base64'), decode(it.body, 'base64'));
    IF goes_on THEN
        begun := first_seq + 1;
        INSERT INTO events (seq, run, ordinal, epoch, at, format, checksum, body)
        VALUES (begun, made, 2, 1, (turn ->> 3)::bigint, (turn ->> 4)::integer, decode(turn ->> 5, 'base64'),
            decode(turn ->> 6, 'base64'));
    END IF;
    IF it.attributes IS NOT NULL THEN
        INSERT INTO attributes (run, name, value) SELECT made, name, value FROM jsonb_each_text(it.attributes) AS a(name, value);
    END IF;
    IF it.names IS NOT NULL THEN
        PERFORM _refer(made, 'row', 1, '', it.names);
    END IF;
    is_hint := NOT is_claimed;
END
$$;

-- What only the client can write (the end of a run as an event) and has not sent along. Nothing is kept of the
-- transaction; the client sends the same again with what is asked for. Rare: a child that was there already, or a run
-- that ends while a run that did not make it waits for it.
CREATE OR REPLACE FUNCTION _ask(what text, run text, workflow text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the end of run % is needed', run USING ERRCODE = 'HF001',
        DETAIL = jsonb_build_object('what', what, 'run', run, 'workflow', workflow)::text;
END
$$;

-- The child of a turn. A run that is there already is adopted: the parent is told of its end.
CREATE OR REPLACE FUNCTION _start_child(at bigint, child jsonb, ordinal bigint, known jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    created record;
    there record;
    watcher text := child -> 'watcher' ->> 0;
    watch_key text := child -> 'watcher' ->> 1;
    -- The ordinal makes it a different message when a run starts the same child again after `continue_as`.
    told text := 'ended:' || watch_key || ':' || ordinal;
    halves jsonb;
    names jsonb;
BEGIN
    SELECT * INTO created FROM _insert_run(at, child, '', '');
    IF created.made IS NOT NULL THEN
        RETURN child ->> 'id';
    END IF;
    IF watcher IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT no, id, status, workflow, parent, parent_key INTO there FROM runs WHERE id = child ->> 'id' FOR NO KEY UPDATE;
    IF there.workflow <> child ->> 'workflow' THEN
        halves := known -> 'conflicts' -> there.id -> (child ->> 'workflow');
        IF halves IS NULL THEN
            PERFORM _ask('conflict', there.id, child ->> 'workflow');
        END IF;
    ELSIF there.status IN ('completed', 'failed', 'cancelled') THEN
        halves := known -> 'ends' -> there.id;
        IF halves IS NULL THEN
            PERFORM _ask('end', there.id, there.workflow);
        END IF;
        names := _end_references(there.no, halves);
    ELSE
        IF (there.parent, there.parent_key) IS DISTINCT FROM (watcher, watch_key) THEN
            INSERT INTO adoptions (run, watcher, key, message) VALUES (there.no, watcher, watch_key, told)
            ON CONFLICT DO NOTHING;
            UPDATE runs SET is_adopted = true WHERE no = there.no AND NOT is_adopted;
        END IF;  -- a run tells its own parent without being asked
        RETURN NULL;
    END IF;
    IF _deliver(at, watcher, told, 'child', _filled(halves, watch_key), NULL, NULL, names) = 'accepted' THEN
        RETURN watcher;
    END IF;
    RETURN NULL;
END
$$;

-- What of an encoded message makes it the same as another one under its id: kind, name and value. As
-- `core.message_ids` has it. `json` keeps a value as it is written.
CREATE OR REPLACE FUNCTION _said(body bytea) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY[said ->> 't', said ->> 'name', coalesce((said -> 'value')::text, 'null'), coalesce(said ->> 'blob', '')]
    FROM (SELECT convert_from(body, 'UTF8')::json AS said) AS event
$$;

-- Whether the run was sent another message under this id. What is no longer kept, is damaged, or was replaced or redacted
-- by a person counts as the same. Reads one row by `inbox_by_sender`; the run's row is locked by the caller.
CREATE OR REPLACE FUNCTION _is_other_message(target text, message text, sent bytea) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    kept record;
BEGIN
    SELECT inbox.kind, inbox.body, inbox.checksum INTO kept FROM runs JOIN inbox ON inbox.run = runs.no
    WHERE runs.id = target AND inbox.id = message;
    IF kept.body = ''::bytea
        OR kept.checksum NOT IN (''::bytea, _checksum(target, message, kept.kind, kept.body)) THEN
        RETURN false;
    END IF;
    IF _said(kept.body) IS NOT DISTINCT FROM _said(sent) THEN
        RETURN false;
    END IF;
    IF (_said(kept.body))[1:2] IS DISTINCT FROM (_said(sent))[1:2] THEN
        RETURN true;
    END IF;
    RETURN strpos((_said(kept.body))[3], '⟦redacted⟧') = 0
        AND coalesce(convert_from(kept.body, 'UTF8')::json ->> 'replaced_by', '') = '';
EXCEPTION WHEN data_exception THEN  -- older than checksums, and unreadable
    RETURN false;
END
$$;

-- Tells a run that a message of its own turn, whose row is locked and moved, could not be delivered. One that ended with
-- it keeps that, and is not woken.
CREATE OR REPLACE FUNCTION _tell_sender(at bigint, turn_no bigint, message text, message_body bytea)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    sender text;
BEGIN
    UPDATE runs SET inbox_last = inbox_last + 1,
        available_at = CASE
            WHEN ended_at IS NULL THEN least(coalesce(available_at, _tell_sender.at), _tell_sender.at) END,
        ready = CASE WHEN instance = '' AND status IN ('pending', 'running') THEN 1 ELSE ready END
    WHERE no = turn_no RETURNING inbox_last, id INTO number, sender;
    INSERT INTO inbox (run, no, id, kind, body, at, checksum)
    VALUES (turn_no, number, message, 'undelivered', message_body, _tell_sender.at,
        _checksum(sender, message, 'undelivered', message_body));
END
$$;

-- What a turn brings besides its row and the projection; `extra` names only what there is.
CREATE OR REPLACE FUNCTION _reach_out(at bigint, turn_no bigint, turn_ordinal bigint, turn_at bigint, extra jsonb, known jsonb)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    hints text[] := '{}';
    one jsonb;
    word text;
BEGIN
    FOR one IN SELECT * FROM jsonb_array_elements(extra -> 'children') LOOP
        hints := hints || _start_child(at, one, turn_ordinal, known);
    END LOOP;
    FOR one IN SELECT * FROM jsonb_array_elements(extra -> 'messages') LOOP
        word := _deliver(at, one ->> 'run', one ->> 'id', one ->> 'kind', decode(one ->> 'body', 'base64'),
            decode(one ->> 'checksum', 'base64'), one -> 'blobs', one -> 'names');
        IF word = 'accepted' THEN
            hints := hints || (one ->> 'run');
        ELSIF one ? 'reply' THEN
            IF word = 'repeat' AND _is_other_message(one ->> 'run', one ->> 'id', decode(one ->> 'body', 'base64')) THEN
                word := 'conflict';
            END IF;
            IF word <> 'repeat' THEN
                PERFORM _tell_sender(at, turn_no, one -> 'reply' ->> 2, _filled(one -> 'reply', word));
            END IF;
        END IF;
    END LOOP;
    FOR one IN SELECT * FROM jsonb_array_elements(extra -> 'publications') LOOP
        hints := hints || (_publish(at, one)).woken;
    END LOOP;
    IF extra ? 'exposed' THEN
        INSERT INTO exposed (run, name, value, blob, checksum, refers)
        SELECT DISTINCT ON (e ->> 0) turn_no, e ->> 0, decode(e ->> 1, 'base64'), e ->> 2, decode(e ->> 3, 'base64'),
            e -> 4 IS NOT NULL
        FROM jsonb_array_elements(extra -> 'exposed') WITH ORDINALITY AS x(e, place) ORDER BY e ->> 0, place DESC
        ON CONFLICT (run, name) DO UPDATE SET value = excluded.value, blob = excluded.blob,
            checksum = excluded.checksum, refers = excluded.refers;
        FOR one IN SELECT * FROM jsonb_path_query(extra, 'strict $.exposed[*] ? (exists (@[4]))') LOOP
            PERFORM _refer_only(at, turn_no, 'value', 0, one ->> 0, one -> 4);
        END LOOP;
    END IF;
    IF extra ? 'streams' THEN
        PERFORM _stream(turn_no, extra #> '{streams,parts}', extra #> '{streams,spans}');
    END IF;
    IF extra ? 'attributes' THEN
        DELETE FROM attributes WHERE run = turn_no
            AND name IN (SELECT a.name FROM jsonb_each(extra -> 'attributes') AS a(name, value) WHERE value = 'null');
        INSERT INTO attributes (run, name, value)
        SELECT turn_no, a.name, a.value FROM jsonb_each_text(extra -> 'attributes') AS a(name, value)
        WHERE a.value IS NOT NULL
        ON CONFLICT (run, name) DO UPDATE SET value = excluded.value;
    END IF;
    IF extra ? 'answers' THEN
        PERFORM _put_answers(turn_no, extra -> 'answers');
        hints := hints || (SELECT id FROM runs WHERE no = turn_no);
    END IF;
    IF extra ? 'unwatch' THEN  -- the keys of new waits are among them
        DELETE FROM watchers WHERE run = turn_no
            AND key IN (SELECT * FROM jsonb_array_elements_text(extra -> 'unwatch'));
        INSERT INTO watchers (topic, run, key, since)
        SELECT w ->> 0, turn_no, w ->> 1, turn_at
        FROM jsonb_array_elements(extra -> 'watch') WITH ORDINALITY AS x(w, place) ORDER BY place;
    END IF;
    RETURN hints;
END
$$;

-- One turn: the fenced update of the run, its row in the journal, and what else it brings; or why nothing was written.
-- code 0 committed (seq, inbox_last) · 1 fenced (epoch, next_ordinal) · 2 unread (inbox_last).
--
-- What a turn makes of its run's row is said in `ports.row`, not here. This sets the values of its two outcomes, and
-- chooses between them by `inbox_last`: given back, the run is due at `until` if everything was seen, at once if not.
-- flags: 1 consumes the inbox · 2 ends the run, and is refused with messages unread · 4 clears the claims and what stands
-- against the run · 8 gives the lease back (a run that has not begun waits at the gate of its queue again) · 16 the run may be claimed, which it is if it is not held and is due.
CREATE OR REPLACE FUNCTION _turn(
    at bigint, turn_no bigint, turn_epoch bigint, turn_ordinal bigint, turn_at bigint, turn_format integer,
    turn_checksum bytea, turn_body bytea, new_workflow text, new_version text, new_status text, new_doing bytea,
    new_started bigint, new_updated bigint, new_ended bigint, seen bigint, flags integer, turn_after bytea,
    until bigint, extra jsonb, known jsonb, OUT code integer, OUT first bigint, OUT second bigint, OUT hints text[])
LANGUAGE plpgsql AS $$
DECLARE
    moved record;
    adoption record;
    halves jsonb;
    is_terminal boolean := flags & 2 > 0;
    is_parked boolean := flags & 10 = 8;
BEGIN
    UPDATE runs SET next_ordinal = next_ordinal + 1, doing = new_doing, updated_at = new_updated, status = new_status,
        workflow = new_workflow, version = new_version, started_at = new_started, ended_at = new_ended,
        claims = CASE WHEN flags & 4 > 0 THEN 0 ELSE claims END,
        deaths = CASE WHEN flags & 4 > 0 THEN 0 ELSE deaths END,
        inbox_read = CASE WHEN flags & 1 > 0 THEN greatest(inbox_read, seen) ELSE inbox_read END,
        instance = CASE WHEN flags & 8 > 0 THEN '' ELSE instance END,
        gated = CASE WHEN flags & 8 > 0 AND gated = 2 AND new_started IS NULL THEN 1 ELSE gated END,
        available_at = CASE
            WHEN flags & 8 = 0 THEN available_at
            WHEN inbox_last > seen THEN _turn.at
            ELSE until END,
        ready = CASE
            WHEN flags & 16 = 0 THEN NULL
            WHEN flags & 8 > 0 THEN CASE WHEN inbox_last > seen THEN 1 ELSE (until <= _turn.at)::int END
                * CASE WHEN gated > 0 AND new_started IS NULL THEN 2 ELSE 1 END
            WHEN ready IS NULL AND instance = '' AND available_at IS NOT NULL THEN 0
            ELSE ready END
    WHERE no = turn_no AND epoch = turn_epoch AND next_ordinal = turn_ordinal AND ended_at IS NULL
        AND coalesce((SELECT checksum FROM events WHERE run = turn_no AND ordinal = turn_ordinal - 1), '') = turn_after
        AND NOT (is_terminal AND inbox_last > seen)
    RETURNING id, inbox_last INTO moved;
    IF NOT FOUND THEN
        SELECT epoch, next_ordinal, inbox_last, ended_at,
            coalesce((SELECT checksum FROM events WHERE run = turn_no AND ordinal = turn_ordinal - 1), '') AS last
        INTO moved FROM runs WHERE no = turn_no;
        IF NOT FOUND THEN
            code := 1; first := 0; second := 0;
            RETURN;
        END IF;
        IF (moved.epoch, moved.next_ordinal) = (turn_epoch, turn_ordinal) AND moved.ended_at IS NULL
            AND moved.last = turn_after AND is_terminal AND moved.inbox_last > seen
        THEN
            code := 2; first := moved.inbox_last;
            RETURN;
        END IF;
        SELECT seq INTO first FROM events
        WHERE run = turn_no AND ordinal = turn_ordinal AND epoch = turn_epoch AND checksum = turn_checksum;
        IF FOUND THEN
            code := 0; second := moved.inbox_last;
        ELSE
            code := 1; first := moved.epoch; second := moved.next_ordinal;
        END IF;
        RETURN;
    END IF;
    IF extra ? 'blobs' THEN
        PERFORM _keep_blobs(at, extra -> 'blobs', 'payload');
    END IF;
    INSERT INTO events (seq, run, ordinal, epoch, at, format, checksum, body)
    VALUES (_next_seq(), turn_no, turn_ordinal, turn_epoch, turn_at, turn_format, turn_checksum, turn_body)
    RETURNING seq INTO first;
    IF extra ? 'names' THEN
        PERFORM _refer(turn_no, 'row', turn_ordinal, '', extra -> 'names');
    END IF;
    code := 0;
    second := moved.inbox_last;
    IF flags & 1 > 0 THEN
        UPDATE inbox SET consumed_ordinal = turn_ordinal WHERE run = turn_no AND no <= seen AND consumed_ordinal IS NULL;
    END IF;
    IF is_terminal OR is_parked AND (until IS NOT NULL OR moved.inbox_last > seen) THEN
        hints := ARRAY[moved.id];
    END IF;
    IF extra IS NOT NULL THEN
        hints := hints || _reach_out(at, turn_no, turn_ordinal, turn_at, extra, known);
        SELECT inbox_last INTO second FROM runs WHERE no = turn_no;  -- it may have written to itself
        IF is_parked AND second > seen THEN  -- due at once
            hints := hints || moved.id;
        END IF;
    END IF;
    IF is_terminal THEN
        DELETE FROM watchers WHERE run = turn_no;
        FOR adoption IN DELETE FROM adoptions WHERE run = turn_no RETURNING watcher, key, message LOOP
            IF adoption.key = '' THEN  -- it waits to begin
                IF _precede(at, moved.id, adoption.watcher) = 'accepted' THEN
                    hints := hints || adoption.watcher;
                END IF;
                CONTINUE;
            END IF;
            halves := known -> 'ends' -> moved.id;
            IF halves IS NULL THEN
                PERFORM _ask('own end', moved.id, new_workflow);
            END IF;
            IF _deliver(
                at, adoption.watcher, adoption.message, 'child', _filled(halves, adoption.key), NULL, NULL,
                _end_references(turn_no, halves)) = 'accepted'
            THEN
                hints := hints || adoption.watcher;
            END IF;
        END LOOP;
    END IF;
END
$$;

-- Blobs that a transaction will store at several places, taken in order before the first of them, wherever they stand in
-- what it was sent. Those that are there are locked. For those that are not, whose second writer waits for the first,
-- there is nothing to lock but a word for all names that begin alike, until the transaction ends: a thousand blobs take
-- no more than 256 of them. A transaction with a single blob waits for nothing afterwards, and needs none.
CREATE OR REPLACE FUNCTION _lock_blobs(sent jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[] := ARRAY(
        SELECT DISTINCT one #>> '{}' FROM jsonb_path_query(
            sent, '$.**.blobs[*][0] ? (@ like_regex "^[0-9a-f]{64}$")') AS one);
BEGIN
    IF cardinality(names) > 1 THEN
        PERFORM pg_advisory_xact_lock(one) FROM (
            SELECT DISTINCT hashtextextended(jsonb_build_array(current_schema(), 'blobs', left(n, 2))::text, 0) AS one
            FROM unnest(names) AS n ORDER BY 1) AS beginnings;
        PERFORM 1 FROM blobs WHERE name IN (SELECT decode(n, 'hex') FROM unnest(names) AS n)
        ORDER BY name FOR NO KEY UPDATE;
    END IF;
END
$$;

-- Locks everything that the turns will touch, in the order of the numbers: their runs, the targets of messages, the
-- watchers of topics, children that are there already, and the runs that wait for the end of one that may end now; then the
-- blobs they bring.
-- Planned once, and always over the keys, whatever the statistics say of a table that grows.
CREATE OR REPLACE FUNCTION _lock_for(nos bigint[], ending bigint[], extras jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM 1 FROM runs WHERE no IN (
        SELECT unnest(nos)
        UNION
        SELECT runs.no FROM runs WHERE id IN (
            SELECT one ->> 'run' FROM jsonb_path_query(extras, '$[*].messages[*]') AS one
            UNION ALL
            SELECT one ->> 'id' FROM jsonb_path_query(extras, '$[*].children[*]') AS one
            UNION ALL
            SELECT one #>> '{watcher,0}' FROM jsonb_path_query(extras, '$[*].children[*]') AS one
            UNION ALL
            SELECT watcher FROM adoptions WHERE run = ANY (ending))
        UNION
        SELECT run FROM watchers WHERE topic IN (
            SELECT one ->> 'topic' FROM jsonb_path_query(extras, '$[*].publications[*]') AS one))
    ORDER BY no FOR NO KEY UPDATE;
    IF extras @? '$[*].children' THEN
        PERFORM _line_up(jsonb_path_query_array(extras, '$[*].children[*]'));
    END IF;
    IF extras @? '$.**.blobs' THEN
        PERFORM _lock_blobs(extras);
    END IF;
END
$$;

-- commit_one: a batch of one. Without anything else to bring it locks its own row alone, by the update. The common turn
-- never comes here: it is a statement of the client's (`COMMIT_PLAIN`).
CREATE OR REPLACE FUNCTION commit_one(
    given bigint, turn_no bigint, turn_epoch bigint, turn_ordinal bigint, turn_at bigint, turn_format integer,
    turn_checksum bytea, turn_body bytea, new_workflow text, new_version text, new_status text, new_doing bytea,
    new_started bigint, new_updated bigint, new_ended bigint, seen bigint, flags integer, turn_after bytea,
    until bigint, extra jsonb, known jsonb, OUT code integer, OUT first bigint, OUT second bigint, OUT hints text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
BEGIN
    IF extra IS NOT NULL OR flags & 2 > 0 THEN
        PERFORM _lock_for(
            ARRAY[turn_no], CASE WHEN flags & 2 > 0 THEN ARRAY[turn_no] END, jsonb_build_array(extra));
    END IF;
    SELECT * INTO code, first, second, hints FROM _turn(
        _now(given), turn_no, turn_epoch, turn_ordinal, turn_at, turn_format, turn_checksum, turn_body, new_workflow,
        new_version, new_status, new_doing, new_started, new_updated, new_ended, seen, flags, turn_after, until,
        extra, known);
END
$$;

-- commit_many: a batch, after all locks, in its order. `extras` is as long as the batch, or null if no turn has any: then
-- the common turns (a run keeps its lease, or ends and was not adopted) come first and all at once, in one statement, which is
-- what `_turn` comes to then. Whatever it did not find as expected is left to `_turn`, which says why. Planned once, and
-- always row by row over the keys, whatever the statistics say of a table that grows.
CREATE OR REPLACE FUNCTION commit_many(
    given bigint, nos bigint[], epochs bigint[], ordinals bigint[], ats bigint[], formats integer[], checksums bytea[],
    bodies bytea[], workflows text[], versions text[], statuses text[], doings bytea[], started bigint[],
    updated bigint[], ended bigint[], seen bigint[], flags integer[], afters bytea[], until bigint[], extras jsonb,
    known jsonb,
    OUT codes integer[], OUT firsts bigint[], OUT seconds bigint[], OUT hints text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment bigint;
    first_seq bigint;
    ended_nos bigint[] := '{}';
    verdict record;
BEGIN
    PERFORM _lock_for(
        nos, ARRAY(SELECT no FROM unnest(nos, flags) AS turn(no, flag) WHERE flag & 2 > 0), coalesce(extras, '[]'));
    moment := _now(given);
    codes := array_fill(NULL::integer, ARRAY[cardinality(nos)]);
    firsts := array_fill(NULL::bigint, ARRAY[cardinality(nos)]);
    seconds := firsts;
    IF extras IS NULL THEN
        first_seq := _next_seq(cardinality(nos));
        FOR verdict IN
            WITH moved AS (
                UPDATE runs SET next_ordinal = next_ordinal + 1, doing = turn.doing, updated_at = turn.updated_at,
                    status = turn.status, workflow = turn.workflow, version = turn.version,
                    started_at = turn.started_at, ended_at = turn.ended_at,
                    claims = CASE WHEN turn.flag & 4 > 0 THEN 0 ELSE claims END,
                    deaths = CASE WHEN turn.flag & 4 > 0 THEN 0 ELSE deaths END,
                    instance = CASE WHEN turn.flag & 8 > 0 THEN '' ELSE instance END,
                    available_at = CASE WHEN turn.flag & 8 > 0 THEN turn.until ELSE available_at END,
                    ready = CASE
                        WHEN turn.flag & 16 = 0 THEN NULL
                        WHEN ready IS NULL AND instance = '' AND available_at IS NOT NULL THEN 0
                        ELSE ready END
                FROM unnest(nos, epochs, ordinals, ats, formats, checksums, bodies, workflows, versions, statuses,
                        doings, started, updated, ended, commit_many.seen, commit_many.flags, afters,
                        commit_many.until) WITH ORDINALITY
                    AS turn(no, epoch, ordinal, at, format, checksum, body, workflow, version, status, doing,
                        started_at, updated_at, ended_at, seen, flag, after, until, place)
                WHERE runs.no = turn.no AND runs.epoch = turn.epoch AND runs.next_ordinal = turn.ordinal
                    AND turn.after = coalesce((
                        SELECT before.checksum FROM events AS before
                        WHERE before.run = turn.no AND before.ordinal = turn.ordinal - 1), '')
                    AND runs.ended_at IS NULL AND CASE
                        WHEN turn.flag & 27 = 16 THEN true
                        WHEN turn.flag & 3 = 2 THEN inbox_last <= turn.seen AND NOT is_adopted
                        ELSE false END
                RETURNING turn.place, first_seq + turn.place - 1 AS seq, runs.inbox_last, runs.no, runs.id,
                    turn.ordinal, runs.epoch, turn.at, turn.format, turn.checksum, turn.body, turn.flag),
            written AS (
                INSERT INTO events (seq, run, ordinal, epoch, at, format, checksum, body)
                SELECT seq, no, ordinal, epoch, at, format, checksum, body FROM moved)
            SELECT place, seq, inbox_last, no, id, flag FROM moved
        LOOP
            codes[verdict.place] := 0;
            firsts[verdict.place] := verdict.seq;
            seconds[verdict.place] := verdict.inbox_last;
            IF verdict.flag & 2 > 0 THEN
                hints := hints || verdict.id;
                ended_nos := ended_nos || verdict.no;
            END IF;
        END LOOP;
        DELETE FROM watchers WHERE run = ANY (ended_nos);
    END IF;
    FOR place IN 1 .. cardinality(nos) LOOP
        CONTINUE WHEN codes[place] = 0;
        IF extras IS NULL THEN  -- it takes the seq of its place
            PERFORM set_config(_seq_setting(), (first_seq + place - 2)::text, true);
        END IF;
        SELECT * INTO verdict FROM _turn(
            moment, nos[place], epochs[place], ordinals[place], ats[place], formats[place], checksums[place],
            bodies[place], workflows[place], versions[place], statuses[place], doings[place], started[place],
            updated[place], ended[place], seen[place], flags[place], afters[place], until[place],
            nullif(extras -> (place - 1), 'null'), known);
        codes[place] := verdict.code;
        firsts[place] := verdict.first;
        seconds[place] := verdict.second;
        hints := hints || verdict.hints;
    END LOOP;
END
$$;

-- The first turn of a new run, in the form of the columns of `_turn`; null if the run is not at its epoch.
CREATE OR REPLACE FUNCTION _first_turn(at bigint, run_no bigint, turn jsonb, known jsonb, OUT code integer, OUT first bigint,
    OUT second bigint, OUT hints text[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM runs WHERE no = run_no AND epoch = (turn ->> 1)::bigint;
    IF FOUND THEN
        SELECT * INTO code, first, second, hints FROM _turn(
            at, run_no, (turn ->> 1)::bigint, (turn ->> 2)::bigint, (turn ->> 3)::bigint, (turn ->> 4)::integer,
            decode(turn ->> 5, 'base64'), decode(turn ->> 6, 'base64'), turn ->> 7, turn ->> 8, turn ->> 9,
            decode(turn ->> 10, 'base64'), (turn ->> 11)::bigint, (turn ->> 12)::bigint, (turn ->> 13)::bigint,
            (turn ->> 14)::bigint, (turn ->> 15)::integer, decode(turn ->> 16, 'base64'), (turn ->> 17)::bigint,
            nullif(turn -> 18, 'null'), known);
    END IF;
END
$$;

-- create_runs: new runs, each unless its id is in use, or its key by a run of the same workflow made after `since`, or its
-- unique value by an open run that was started as the same workflow; and the first turn of those that come with one and
-- could be made already claimed.
-- Locks the keys and unique values (until the transaction ends, in order), so that of any number of callers one makes the run.
-- Blobs that a run needs are locked against being collected.
-- code 0 made · 1 the id was in use · 2 the key was in use · 3 a blob that it needs is gone · 4 the unique value was in use · 5 joined the
-- run that has the unique value. is_ours: the first row is the one of this call.
CREATE OR REPLACE FUNCTION create_runs(given bigint, news jsonb, is_again boolean, known jsonb)
RETURNS TABLE (code integer, is_ours boolean, first_seq bigint, first_inbox bigint, hints text[], run run_rows)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint;
    new jsonb;
    created record;
    begun record;
    joined _joining;
    found_no bigint;
    stored bigint;
BEGIN
    IF news @? '$[*] ? (@.key != "" || exists (@.unique))' THEN
        PERFORM pg_advisory_xact_lock(one) FROM (
            SELECT hashtextextended(
                jsonb_build_array(current_schema(), n ->> 'workflow', n ->> 'key')::text, 0) AS one
            FROM jsonb_array_elements(news) AS n WHERE n ->> 'key' <> ''
            UNION
            SELECT hashtextextended(
                jsonb_build_array(current_schema(), n ->> 'workflow', 'unique', n ->> 'unique')::text, 0)
            FROM jsonb_array_elements(news) AS n WHERE n ? 'unique' ORDER BY 1) AS keys;
    END IF;
    IF news @? '$[*].first[18] ? (@ != null)' OR news @? '$[*].blobs' OR news @? '$[*].messages'
        OR news @? '$[*].joins'
    THEN
        PERFORM _lock_for('{}', NULL, news || jsonb_path_query_array(news, '$[*].first[18]')
            || CASE WHEN news @? '$[*].joins' THEN _joined(news) ELSE '[]' END);
    END IF;
    IF jsonb_array_length(news) > 1 THEN
        PERFORM _line_up(news);
    END IF;
    moment := _now(given);
    FOR new IN SELECT * FROM jsonb_array_elements(news) LOOP
        is_ours := true;
        first_seq := NULL;
        first_inbox := NULL;
        hints := '{}';
        IF new ->> 'key' <> '' THEN
            PERFORM 1 FROM runs WHERE id = new ->> 'id';
            IF NOT FOUND THEN
                SELECT no INTO found_no FROM runs
                WHERE workflow = new ->> 'workflow' AND key = new ->> 'key' AND key <> ''
                    AND created_at > (new ->> 'since')::bigint
                ORDER BY created_at, no LIMIT 1;
                IF FOUND THEN
                    code := 2;
                    is_ours := false;
                    SELECT r.* INTO run FROM run_rows AS r WHERE r.no = found_no;
                    RETURN NEXT;
                    CONTINUE;
                END IF;
            END IF;
        END IF;
        IF new ? 'unique' THEN
            joined := NULL;
            PERFORM 1 FROM runs WHERE id = new ->> 'id';
            IF NOT FOUND THEN
                SELECT no INTO found_no FROM runs
                WHERE no = (SELECT u.run FROM uniques AS u WHERE u.workflow = new ->> 'workflow' AND u.value = new ->> 'unique')
                    AND ended_at IS NULL
                    AND (new #>> '{replaces,run}', (new #>> '{replaces,is_idle}')::boolean)
                        IS DISTINCT FROM (id, started_at IS NULL AND instance = '');
                IF FOUND AND new ? 'joins' THEN
                    SELECT * INTO joined FROM _join(moment, found_no, new);
                END IF;
                IF FOUND AND (coalesce(joined.is_joined, false) OR NOT coalesce(new -> 'joins' ? 'makes_another', false)) THEN
                    code := CASE WHEN joined.is_joined THEN 5 ELSE 4 END;
                    hints := coalesce(joined.hints, '{}');
                    is_ours := false;
                    SELECT r.* INTO run FROM run_rows AS r WHERE r.no = found_no;
                    RETURN NEXT;
                    CONTINUE;
                END IF;
            END IF;
        END IF;
        IF new ? 'needs' AND NOT EXISTS (SELECT 1 FROM runs WHERE id = new ->> 'id') THEN
            PERFORM 1 FROM blobs
            WHERE name IN (SELECT decode(n, 'hex') FROM jsonb_array_elements_text(new -> 'needs') AS n)
            ORDER BY name FOR KEY SHARE;
            GET DIAGNOSTICS stored = ROW_COUNT;
            IF stored < jsonb_array_length(new -> 'needs') THEN
                code := 3;
                is_ours := false;
                run := NULL;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        SELECT * INTO created FROM _insert_run(
            moment, new, CASE WHEN new ? 'replaces' THEN '' ELSE new ->> 'instance' END, new ->> 'worker', new -> 'first');
        IF created.made IS NOT NULL THEN
            code := 0;
            IF new ? 'replaces' THEN
                hints := _succeed(moment, created.made, new);
            END IF;
            IF new ? 'message' THEN
                PERFORM _deliver(
                    moment, new #>> '{message,run}', new #>> '{message,id}', new #>> '{message,kind}',
                    decode(new #>> '{message,body}', 'base64'), decode(new #>> '{message,checksum}', 'base64'),
                    new #> '{message,blobs}', new #> '{message,names}');
                hints := hints || (new ->> 'id');
            END IF;
            SELECT r.* INTO run FROM run_rows AS r WHERE r.no = created.made;
            IF created.is_hint THEN
                hints := hints || run.id;
            END IF;
            IF new ? 'unique' THEN
                INSERT INTO uniques AS u (workflow, value, run, room, latest)
                VALUES (new ->> 'workflow', new ->> 'unique', created.made, (new #>> '{joins,room}')::bigint,
                    (new #>> '{joins,latest}')::bigint)
                ON CONFLICT ON CONSTRAINT uniques_pkey
                DO UPDATE SET run = excluded.run, room = excluded.room, latest = excluded.latest;
            END IF;
        ELSE
            code := 1;
            SELECT r.* INTO run FROM run_rows AS r WHERE r.id = new ->> 'id';
            found_no := run.no;
            is_ours := EXISTS (
                SELECT 1 FROM events AS e
                WHERE e.run = found_no AND ordinal = 1 AND checksum = decode(new ->> 'checksum', 'base64'));
        END IF;
        IF created.begun IS NOT NULL THEN
            first_seq := created.begun;
            first_inbox := 0;
        ELSIF new ? 'first' AND is_ours AND (code = 0 OR is_again) THEN
            SELECT * INTO begun FROM _first_turn(moment, run.no, new -> 'first', known);
            IF begun.code = 0 THEN
                first_seq := begun.first;
                first_inbox := begun.second;
                hints := hints || begun.hints;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- send_messages: each to its run, in their order. Locks the runs, in order.
CREATE OR REPLACE FUNCTION send_messages(given bigint, messages jsonb) RETURNS text[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint;
    answers text[] := '{}';
    one jsonb;
BEGIN
    PERFORM _lock_for('{}', NULL, jsonb_build_array(jsonb_build_object('messages', messages)));
    moment := _now(given);
    FOR one IN SELECT * FROM jsonb_array_elements(messages) LOOP
        IF one ? 'asks' AND _is_asked(one ->> 'run', one ->> 'id') THEN
            answers := answers || 'repeat'::text;
            CONTINUE;
        END IF;
        answers := answers || _deliver(
            moment, one ->> 'run', one ->> 'id', one ->> 'kind', decode(one ->> 'body', 'base64'),
            decode(one ->> 'checksum', 'base64'), one -> 'blobs', one -> 'names');
        IF one ? 'asks' AND answers[cardinality(answers)] = 'accepted' THEN
            PERFORM _put_question(one ->> 'run', one ->> 'id', one -> 'asks');
        END IF;
    END LOOP;
    RETURN answers;
END
$$;

-- replace_message: replaces the message of that number. Locks the run's row. Returns what `_deliver` returns.
CREATE OR REPLACE FUNCTION replace_message(given bigint, one jsonb, place bigint) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    run record;
BEGIN
    SELECT no, status, inbox_last, inbox_read, next_ordinal INTO run FROM runs WHERE id = one ->> 'run' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    IF run.status NOT IN ('pending', 'running', 'paused') THEN
        RETURN run.status;
    END IF;
    PERFORM 1 FROM inbox WHERE inbox.run = run.no AND no = place AND consumed_ordinal IS NOT NULL;
    IF place < 1 OR place > run.inbox_last OR FOUND AND place <= run.inbox_read THEN
        RETURN 'repeat';
    END IF;
    DELETE FROM inbox WHERE inbox.run = run.no AND no = place;
    INSERT INTO inbox (run, no, id, kind, body, at, checksum, consumed_ordinal)
    VALUES (run.no, place, one ->> 'id', one ->> 'kind', decode(one ->> 'body', 'base64'), _now(given),
        decode(one ->> 'checksum', 'base64'), CASE WHEN place <= run.inbox_read THEN run.next_ordinal - 1 END);
    IF one ? 'blobs' THEN
        PERFORM _keep_blobs(_now(given), one -> 'blobs', 'payload');
    END IF;
    PERFORM _refer_only(_now(given), run.no, 'message', place, '', one -> 'names');
    UPDATE runs SET available_at = least(coalesce(available_at, _now(given)), _now(given)),
        ready = CASE
            WHEN instance <> '' OR status NOT IN ('pending', 'running') THEN ready
            WHEN gated = 1 AND ready IS DISTINCT FROM 1 THEN 2
            ELSE 1 END
    WHERE no = run.no;
    RETURN 'accepted';
END
$$;

-- publish: to the watchers of one topic. Locks their runs, in order.
CREATE OR REPLACE FUNCTION publish(given bigint, publication jsonb, OUT reached text[], OUT woken text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
BEGIN
    PERFORM _lock_for(
        '{}', NULL, jsonb_build_array(jsonb_build_object('publications', jsonb_build_array(publication))));
    SELECT * INTO reached, woken FROM _publish(_now(given), publication);
END
$$;
