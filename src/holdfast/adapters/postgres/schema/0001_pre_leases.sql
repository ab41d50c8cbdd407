-- Functions of leases: which workers are alive, what a claim takes, what is released.
--
-- A lease is judged by the server's clock alone, read once into a variable: a bare clock_timestamp() in a condition is
-- volatile and would keep an index from being used. `given_boot` and `given_second` are null but under a clock that
-- tests move. Claims, promotions and the freeing of orphans pass over rows that are locked (SKIP LOCKED): they
-- never wait, so they take part in no deadlock.

-- The moment by which leases are judged.
CREATE OR REPLACE FUNCTION _second(given_second bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT _now(given_second) $$;

CREATE OR REPLACE FUNCTION _is_live(one workers, boot text, second bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    -- A lease lasts at most 100 years.
    SELECT NOT one.has_ended AND one.lease_boot = boot AND second < one.expires
        AND one.expires <= second + 3155760000000000
$$;

-- A list that a worker wrote; empty if it cannot be read.
CREATE OR REPLACE FUNCTION _list(written text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    found jsonb;
BEGIN
    found := written::jsonb;
    RETURN CASE WHEN jsonb_typeof(found) = 'array' THEN found ELSE '[]' END;
EXCEPTION WHEN others THEN
    RETURN '[]';
END
$$;

-- Frees runs of an instance: available now, epoch unchanged. Locks them in order; skips locked ones unless all are wanted, so
-- that a heartbeat never waits. The death counts, as `core.suspicion` says: suspects go first, while all other runs are still
-- there; if one of them is locked, the others wait for it.
CREATE OR REPLACE FUNCTION _free(at bigint, holder text, most integer) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    held bigint[];
    suspects bigint[];
    weight integer;
    freed text[];
BEGIN
    IF most IS NULL THEN
        held := ARRAY(SELECT no FROM runs WHERE instance = holder AND instance <> '' ORDER BY no FOR NO KEY UPDATE);
    END IF;
    suspects := ARRAY(SELECT no FROM runs WHERE deaths > 0 AND instance = holder AND instance <> '' AND claims > 0);
    weight := CASE
        WHEN cardinality(suspects) <> 1 THEN 0
        WHEN EXISTS (SELECT 1 FROM runs WHERE instance = holder AND instance <> '' AND no <> suspects[1]) THEN 1
        ELSE 2 END;
    IF most IS NOT NULL THEN
        held := ARRAY(SELECT no FROM runs WHERE no = ANY (suspects) ORDER BY no LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
        IF cardinality(held) < least(most, cardinality(suspects)) THEN
            RETURN '{}';
        END IF;
        held := held || ARRAY(
            SELECT no FROM runs WHERE instance = holder AND instance <> '' AND no <> ALL (suspects)
            ORDER BY no LIMIT most - cardinality(held) FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    WITH released AS (
        UPDATE runs SET instance = '', available_at = _free.at,
            gated = CASE WHEN gated = 2 AND started_at IS NULL AND claims = 0 THEN 1 ELSE gated END,
            ready = CASE
                WHEN status = 'paused' THEN NULL
                WHEN gated > 0 AND started_at IS NULL AND claims = 0 THEN 2
                ELSE 1 END,
            deaths = CASE WHEN no = ANY (suspects) THEN deaths + 1 ELSE (claims > 0)::int END,
            solo = CASE WHEN no = ANY (suspects) THEN solo + (weight > 0)::int ELSE 0 END,
            alone = CASE WHEN no = ANY (suspects) THEN alone + (weight > 1)::int ELSE 0 END,
            added = CASE WHEN no = ANY (suspects) THEN weight ELSE 0 END,
            freed_from = holder
        WHERE no = ANY (held) AND instance = holder RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO freed FROM released;
    RETURN freed;
END
$$;

-- The instance is alive, so its end does not count, unless the run made progress since. Locks all its runs, or the one of
-- that id; skips locked ones, since a heartbeat never waits.
CREATE OR REPLACE FUNCTION _take_back(own text, only_id text) RETURNS void LANGUAGE sql AS $$
    UPDATE runs SET claims = claims - 1, deaths = CASE WHEN claims > 1 THEN deaths - 1 ELSE 0 END,
        solo = solo - (added > 0)::int, alone = alone - (added > 1)::int, added = 0, freed_from = ''
    WHERE freed_from = own AND deaths > 0 AND claims > 0 AND no IN (
        SELECT no FROM runs WHERE freed_from = own AND deaths > 0 AND only_id IN ('', id)
        FOR NO KEY UPDATE SKIP LOCKED)
$$;

-- register: makes an instance known, ends those it takes over from and frees their runs, forgets those that are long
-- gone, and recalls runs that were put off because no worker held a definition it holds. Locks rows of runs, first all
-- of them in order, then of workers, as `release_all` does.
CREATE OR REPLACE FUNCTION register(
    given bigint, given_boot text, given_second bigint, new jsonb, ttl bigint, replaced text[], remembered bigint,
    OUT freed text[], OUT recalled text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    second bigint := _second(given_second);
    boot_now text := coalesce(given_boot, '');
    holder text;
    waiting bigint[];
BEGIN
    waiting := ARRAY(
        SELECT no FROM runs JOIN jsonb_array_elements((new ->> 'definitions')::jsonb) AS d
            ON runs.workflow = d ->> 0 AND runs.version = d ->> 1
        WHERE bounces > 0 AND status IN ('pending', 'running') AND instance = '');
    PERFORM _lock_for(
        waiting || ARRAY(SELECT no FROM runs WHERE instance = ANY (replaced) AND instance <> ''), NULL, '[]');
    freed := '{}';
    FOREACH holder IN ARRAY replaced LOOP
        UPDATE workers SET has_ended = true, seen_at = moment WHERE instance = holder;
        freed := freed || _free(moment, holder, NULL);
    END LOOP;
    DELETE FROM workers WHERE seen_at < moment - remembered AND NOT _is_live(workers, boot_now, second)
        AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.instance = workers.instance AND runs.instance <> '');
    INSERT INTO workers (instance, worker, queues, definitions, pid, host, boot, mark, started_at, seen_at, lease_boot,
        expires, progress)
    VALUES (new ->> 'instance', new ->> 'worker', new ->> 'queues', new ->> 'definitions', (new ->> 'pid')::bigint,
        new ->> 'host', new ->> 'boot', new ->> 'mark', (new ->> 'started_at')::bigint, moment, boot_now,
        second + ttl, new ->> 'progress')
    ON CONFLICT (instance) DO UPDATE SET worker = excluded.worker, queues = excluded.queues,
        definitions = excluded.definitions, pid = excluded.pid, host = excluded.host, boot = excluded.boot,
        mark = excluded.mark, started_at = excluded.started_at, seen_at = excluded.seen_at,
        lease_boot = excluded.lease_boot, expires = excluded.expires, has_ended = false, progress = excluded.progress;
    WITH awake AS (
        UPDATE runs SET available_at = moment, ready = 1 + (gated = 1)::int, bounces = 0, note = ''
        WHERE no = ANY (waiting) AND bounces > 0 AND status IN ('pending', 'running') AND instance = '' RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO recalled FROM awake;
END
$$;

-- beat: renews an instance, then frees a bounded number of runs whose holder is not alive, and says when the first lease
-- of the other holders runs out: now, if some of the dead still hold runs. Locks one row of workers; holders are met one
-- by one over their index, so ten thousand held runs cost as many steps as there are holders. `quiet_until` is the first
-- of what the indexes of claims hold for its queues, a lease from now at most.
CREATE OR REPLACE FUNCTION beat(
    given bigint, given_boot text, given_second bigint, own text, ttl bigint, new_progress text,
    new_recovery text, most integer, takes_back boolean,
    OUT moment bigint, OUT has_lapsed boolean, OUT orphaned integer, OUT next_expiry bigint, OUT quiet_until bigint,
    OUT hints text[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    second bigint := _second(given_second);
    boot_now text := coalesce(given_boot, '');
    lease workers;
    queues jsonb;
    holder text := '';
BEGIN
    moment := _now(given);
    hints := '{}';
    SELECT * INTO lease FROM workers WHERE instance = own;
    IF takes_back AND (lease.instance IS NULL OR NOT _is_live(lease, boot_now, second)) THEN
        PERFORM _take_back(own, '');
    END IF;
    SELECT * INTO lease FROM workers WHERE instance = own FOR NO KEY UPDATE;
    queues := CASE WHEN lease.queues IS NOT NULL THEN _list(lease.queues) END;
    has_lapsed := lease.instance IS NULL OR NOT _is_live(lease, boot_now, second);
    UPDATE workers SET lease_boot = boot_now, expires = second + ttl, has_ended = false, seen_at = moment,
        progress = new_progress, recovery = new_recovery
    WHERE instance = own;
    LOOP
        SELECT min(instance) INTO holder FROM runs WHERE instance <> '' AND instance > holder;
        EXIT WHEN holder IS NULL;
        CONTINUE WHEN holder = own;
        SELECT * INTO lease FROM workers WHERE instance = holder;
        IF FOUND AND _is_live(lease, boot_now, second) THEN
            next_expiry := least(next_expiry, moment + lease.expires - second);
            CONTINUE;
        END IF;
        IF cardinality(hints) < most THEN
            hints := hints || _free(moment, holder, most - cardinality(hints));
        END IF;
        PERFORM 1 FROM runs WHERE instance = holder AND instance <> '' LIMIT 1;
        IF FOUND THEN
            next_expiry := moment;
        END IF;
    END LOOP;
    orphaned := cardinality(hints);
    IF queues IS NOT NULL THEN
        SELECT greatest(moment, least(moment + ttl, min(first.at))) INTO quiet_until
        FROM jsonb_array_elements_text(queues) AS q(name) CROSS JOIN LATERAL (
            (SELECT moment AS at FROM runs WHERE ready = 1 AND queue = q.name LIMIT 1)
            UNION ALL
            (SELECT moment FROM runs WHERE ready = 2 AND queue = q.name LIMIT 1)
            UNION ALL
            (SELECT available_at FROM runs WHERE ready = 0 AND queue = q.name ORDER BY available_at LIMIT 1)) AS first;
    END IF;
END
$$;

-- The definitions that some live worker holds, as pairs.
-- (Parameters of a function in SQL must not be called like a column.)
CREATE OR REPLACE FUNCTION _held_definitions(boot_now text, second_now bigint) RETURNS TABLE (workflow text, version text)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT d ->> 0, d ->> 1 FROM workers, jsonb_array_elements(_list(workers.definitions)) AS d
    WHERE _is_live(workers, boot_now, second_now) AND d ->> 0 IS NOT NULL AND d ->> 1 IS NOT NULL
$$;

-- The definitions that have claimable runs in a queue, met in a seek each over the index.
CREATE OR REPLACE FUNCTION _ready_definitions(of_queue text) RETURNS TABLE (workflow text, version text) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT r.workflow, r.version INTO workflow, version FROM runs AS r
    WHERE ready = 1 AND queue = of_queue ORDER BY r.workflow, r.version LIMIT 1;
    WHILE workflow IS NOT NULL LOOP
        RETURN NEXT;
        SELECT r.workflow, r.version INTO workflow, version FROM runs AS r
        WHERE ready = 1 AND queue = of_queue AND (r.workflow, r.version) > (_ready_definitions.workflow, _ready_definitions.version)
        ORDER BY r.workflow, r.version LIMIT 1;
    END LOOP;
END
$$;

-- claim: what has come due is promoted (a bounded number), then the first runs of the definitions held here are taken, in
-- the order of `core.shares`: shares take turns; one that is ahead (`shares`, `ahead`: by how many turns) comes later;
-- within a turn and within a share it is by priority and time. A share is a workflow. Of suspects the first by priority and
-- time has a place in the order, the others have none. Runs that come before those taken and that no live worker can run are
-- put off. Answers with one row that says when the next run comes due and what was put off (ids and notes in turn), then
-- the runs taken, in order, each with what it competed as. Runs at the gate of a queue come in its order (`_admitted`), and
-- take turns with all others as one share. Locks the rows of queues that have a gate, then exactly the rows it takes or puts
-- off; it skips rows that others have locked. Raises the epoch: the previous holder's commits are fenced from here on.
-- `takes` false: only returns what it would take, and locks nothing: another worker may be claiming the run at this moment,
-- and would skip it.
CREATE OR REPLACE FUNCTION claim(
    given bigint, given_boot text, given_second bigint, own text, own_worker text, queues text[], workflows text[],
    versions text[], most integer, only_ids text[], promoted integer, put_off integer, takes boolean, shares text[],
    ahead integer[])
RETURNS TABLE (next_due bigint, delayed text[], is_held_back boolean, share text, run run_rows)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
    moment bigint := _now(given);
    candidates bigint[];
    is_mine boolean[];
    are_suspects boolean[];
    times bigint[];
    kinds text[];
    priorities bigint[];
    taken bigint[] := '{}';
    gated_queues text[];
    gate record;
    at_gates text[] := '{}';  -- of each run that a gate lets in the queue; then the run, its share and its times
    admitted bigint[] := '{}';
    picked text[] := '{}';
    starts bigint[] := '{}';
    finishes bigint[] := '{}';
    opens_at bigint;
    suspect bigint;  -- the one that this claim may take
    last_place integer;
    window_size integer := most + 50;  -- more than is wanted: others may be taking the first ones just now
BEGIN
    -- The queues with a gate that runs wait at or come to now, in order, before any run is locked.
    gated_queues := ARRAY(
        SELECT q.name FROM queues AS q WHERE q.name = ANY (queues) AND (
            EXISTS (SELECT 1 FROM runs WHERE ready = 2 AND queue = q.name)
            OR EXISTS (SELECT 1 FROM runs WHERE ready = 0 AND queue = q.name AND available_at <= moment))
        ORDER BY q.name FOR NO KEY UPDATE);
    IF only_ids IS NULL THEN
        WITH due AS MATERIALIZED (
            SELECT no FROM unnest(queues) AS q(name) CROSS JOIN LATERAL (
                SELECT no FROM runs WHERE ready = 0 AND queue = q.name AND available_at <= moment
                ORDER BY available_at LIMIT promoted FOR NO KEY UPDATE SKIP LOCKED) AS found)
        UPDATE runs SET ready = 1 + (gated = 1)::int FROM due WHERE runs.no = due.no;
    END IF;
    delayed := '{}';
    FOR gate IN
        SELECT q.name, a.* FROM unnest(gated_queues) AS q(name) CROSS JOIN LATERAL _admitted(
            moment, coalesce(given_boot, ''), _second(given_second), own, q.name, workflows, versions, most, only_ids,
            put_off) AS a
    LOOP
        at_gates := at_gates || array_fill(gate.name, ARRAY[cardinality(gate.nos)]);
        admitted := admitted || gate.nos;
        picked := picked || gate.picked;
        starts := starts || gate.starts;
        finishes := finishes || gate.finishes;
        opens_at := least(opens_at, gate.next_at);
        delayed := delayed || gate.delayed;
    END LOOP;
    SELECT array_agg(c.no ORDER BY c.priority DESC, c.available_at, c.no),
        array_agg(c.mine ORDER BY c.priority DESC, c.available_at, c.no),
        array_agg(c.is_suspect ORDER BY c.priority DESC, c.available_at, c.no),
        array_agg(c.available_at ORDER BY c.priority DESC, c.available_at, c.no),
        array_agg(c.workflow ORDER BY c.priority DESC, c.available_at, c.no),
        array_agg(c.priority ORDER BY c.priority DESC, c.available_at, c.no)
    INTO candidates, is_mine, are_suspects, times, kinds, priorities
    FROM _candidates(
        moment, coalesce(given_boot, ''), _second(given_second), queues, workflows, versions, window_size, put_off,
        only_ids) AS c;
    IF true = ANY (are_suspects)
        AND NOT EXISTS (SELECT 1 FROM runs WHERE deaths > 0 AND instance = own AND instance <> '' AND claims > 0)
    THEN
        IF takes THEN
            SELECT runs.no INTO suspect
            FROM unnest(candidates, is_mine) WITH ORDINALITY AS c(no, mine, place) JOIN runs ON runs.no = c.no
            WHERE c.mine AND deaths > 0 AND instance = '' AND status IN ('pending', 'running') AND runs.available_at <= moment
            ORDER BY c.place LIMIT 1 FOR NO KEY UPDATE OF runs SKIP LOCKED;
        ELSE
            SELECT runs.no INTO suspect
            FROM unnest(candidates, is_mine) WITH ORDINALITY AS c(no, mine, place) JOIN runs ON runs.no = c.no
            WHERE c.mine AND deaths > 0 AND instance = '' AND status IN ('pending', 'running')
                AND runs.available_at <= moment
            ORDER BY c.place LIMIT 1;
        END IF;
    END IF;
    SELECT array_agg(o.no ORDER BY o.turn, o.priority DESC, o.available_at, o.no),
        array_agg(o.mine ORDER BY o.turn, o.priority DESC, o.available_at, o.no),
        array_agg(o.available_at ORDER BY o.turn, o.priority DESC, o.available_at, o.no)
    INTO candidates, is_mine, times
    FROM (
        SELECT c.no, c.mine, c.available_at, c.priority,
            coalesce(lead.turns, 0) + row_number() OVER (PARTITION BY c.workflow ORDER BY c.place) AS turn
        FROM unnest(candidates, is_mine, are_suspects, times, kinds, priorities) WITH ORDINALITY
            AS c(no, mine, is_suspect, available_at, workflow, priority, place)
        LEFT JOIN unnest(shares, ahead) AS lead(share, turns) ON lead.share = c.workflow
        WHERE NOT (c.mine AND c.is_suspect) OR c.no = suspect
        UNION ALL
        SELECT g.no, true, r.available_at, r.priority,
            coalesce(lead.turns, 0) + row_number() OVER (PARTITION BY g.queue ORDER BY g.place)
        FROM unnest(admitted, at_gates) WITH ORDINALITY AS g(no, queue, place) JOIN runs AS r ON r.no = g.no
        LEFT JOIN unnest(shares, ahead) AS lead(share, turns) ON lead.share = chr(1) || g.queue) AS o;
    IF takes THEN
        taken := ARRAY(
            SELECT runs.no FROM unnest(candidates, is_mine) WITH ORDINALITY AS c(no, mine, place) JOIN runs ON runs.no = c.no
            WHERE c.mine AND instance = '' AND status NOT IN ('paused', 'completed', 'failed', 'cancelled')
                AND runs.available_at <= moment
                AND (deaths = 0 OR runs.no = suspect)
            ORDER BY c.place LIMIT most FOR NO KEY UPDATE OF runs SKIP LOCKED);
    ELSE
        taken := ARRAY(
            SELECT runs.no FROM unnest(candidates, is_mine) WITH ORDINALITY AS c(no, mine, place) JOIN runs ON runs.no = c.no
            WHERE c.mine AND instance = '' AND status NOT IN ('paused', 'completed', 'failed', 'cancelled')
                AND runs.available_at <= moment
                AND (deaths = 0 OR runs.no = suspect)
            ORDER BY c.place LIMIT most);
    END IF;
    last_place := CASE
        WHEN cardinality(taken) = most THEN coalesce(array_position(candidates, taken[most]), 0)
        ELSE cardinality(candidates) + 1 END;
    IF false = ANY (is_mine) THEN
        delayed := delayed || ARRAY(SELECT unnest(ARRAY[d.id, d.note]) FROM _put_off(moment, ARRAY(
            SELECT runs.no FROM unnest(candidates, is_mine) WITH ORDINALITY AS c(no, mine, place)
            JOIN runs ON runs.no = c.no
            WHERE NOT c.mine AND c.place < last_place AND ready IS NOT NULL AND runs.available_at <= moment
            ORDER BY c.place FOR NO KEY UPDATE OF runs SKIP LOCKED)) AS d);
    END IF;
    IF takes AND taken <> '{}' THEN
        UPDATE runs SET epoch = epoch + 1, claims = claims + 1, instance = own, worker = own_worker, ready = NULL,
            bounces = 0, note = '', gated = CASE WHEN gated = 1 THEN 2 ELSE gated END
        WHERE no = ANY (taken);
        PERFORM _let_in(moment, g.queue, array_agg(g.share ORDER BY g.place), array_agg(g.start), array_agg(g.finish ORDER BY g.place))
        FROM unnest(admitted, at_gates, picked, starts, finishes) WITH ORDINALITY
            AS g(no, queue, share, start, finish, place)
        WHERE g.no = ANY (taken) GROUP BY g.queue;
    END IF;
    is_held_back := false;
    IF gated_queues <> '{}' THEN
        is_held_back := EXISTS (
            SELECT 1 FROM unnest(gated_queues) AS q(name) CROSS JOIN LATERAL (
                SELECT 1 FROM runs WHERE ready = 2 AND queue = q.name LIMIT 1) AS one);
        opens_at := CASE WHEN is_held_back THEN opens_at END;
        is_held_back := is_held_back AND cardinality(taken) < most;
    END IF;
    SELECT least(
        opens_at,
        (SELECT min(t.at) FROM unnest(times, is_mine, candidates) WITH ORDINALITY AS t(at, mine, no, place)
         WHERE mine AND place > last_place AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.no = t.no AND deaths > 0)),
        (SELECT min(first.at) FROM unnest(queues) AS q(name) CROSS JOIN LATERAL (
            SELECT available_at AS at FROM runs WHERE ready = 0 AND queue = q.name ORDER BY available_at LIMIT 1) AS first))
    INTO next_due;
    RETURN NEXT;
    next_due := NULL;
    delayed := NULL;
    FOR run IN
        SELECT r.* FROM unnest(taken) WITH ORDINALITY AS t(no, place) JOIN run_rows AS r ON r.no = t.no ORDER BY t.place
    LOOP
        share := coalesce(chr(1) || at_gates[array_position(admitted, run.no)], run.workflow);
        RETURN NEXT;
    END LOOP;
END
$$;

-- What a claim may take or put off: of each definition held here the first claimable runs, and of each that no
-- live worker holds some. Locks nothing.
CREATE OR REPLACE FUNCTION _candidates(
    moment bigint, boot text, second bigint, queues text[], workflows text[], versions text[], window_size integer,
    put_off integer, only_ids text[])
RETURNS TABLE (
    no bigint, mine boolean, priority bigint, available_at bigint, workflow text, is_suspect boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    kind record;
    own boolean;
BEGIN
    IF only_ids IS NOT NULL THEN
        RETURN QUERY
            SELECT r.no, own_kind.workflow IS NOT NULL, r.priority, r.available_at, r.workflow, r.deaths > 0
            FROM runs AS r
            LEFT JOIN unnest(workflows, versions) AS own_kind(workflow, version)
                ON own_kind.workflow = r.workflow AND own_kind.version = r.version
            WHERE r.id = ANY (only_ids) AND r.queue = ANY (queues) AND r.instance = ''
                AND r.status NOT IN ('paused', 'completed', 'failed', 'cancelled') AND r.available_at <= moment
                AND NOT (own_kind.workflow IS NOT NULL AND r.gated = 1 AND r.ready IS DISTINCT FROM 1)
                AND (own_kind.workflow IS NOT NULL
                    OR (r.workflow, r.version) NOT IN (SELECT * FROM _held_definitions(boot, second)));
        RETURN;
    END IF;
    FOR kind IN
        SELECT q.name AS queue, d.workflow, d.version
        FROM (SELECT DISTINCT unnest(queues) AS name) AS q CROSS JOIN LATERAL _ready_definitions(q.name) AS d
    LOOP
        own := EXISTS (
            SELECT 1 FROM unnest(workflows, versions) AS o(workflow, version)
            WHERE o.workflow = kind.workflow AND o.version = kind.version);
        IF own OR NOT EXISTS (
            SELECT 1 FROM _held_definitions(boot, second) AS h
            WHERE h.workflow = kind.workflow AND h.version = kind.version)
        THEN
            RETURN QUERY
                SELECT r.no, own, r.priority, r.available_at, r.workflow, false FROM runs AS r
                WHERE r.ready = 1 AND r.queue = kind.queue AND r.workflow = kind.workflow AND r.version = kind.version
                    AND r.available_at <= moment AND r.deaths = 0
                ORDER BY r.priority DESC, r.available_at, r.no LIMIT CASE WHEN own THEN window_size ELSE put_off END;
            RETURN QUERY
                SELECT r.no, own, r.priority, r.available_at, r.workflow, true FROM runs AS r
                WHERE r.deaths > 0 AND r.instance = '' AND r.queue = kind.queue AND r.workflow = kind.workflow
                    AND r.version = kind.version AND r.available_at <= moment AND r.ready = 1
                ORDER BY r.priority DESC, r.available_at, r.no LIMIT CASE WHEN own THEN window_size ELSE put_off END;
        END IF;
    END LOOP;
END
$$;

-- No live worker holds their definitions: later, 5 s doubling up to 5 min, with a note. The caller has locked them.
CREATE OR REPLACE FUNCTION _put_off(moment bigint, nos bigint[]) RETURNS TABLE (id text, note text) LANGUAGE sql AS $$
    WITH delayed AS (
        UPDATE runs AS r SET ready = 0, bounces = bounces + 1,
            available_at = moment + least(5000000 * (1::bigint << least(bounces, 10)::int), 300000000),
            note = 'no live worker holds workflow ' || workflow
                || CASE WHEN version <> '' THEN ' (version ' || version || ')' ELSE '' END || '; start one that does'
        WHERE no = ANY (nos) RETURNING r.no, r.id, r.note)
    SELECT id, note FROM delayed ORDER BY array_position(nos, no)
$$;

-- take: an operator's claim, not counted. Locks the run's row.
-- code 0 taken · 1 held by a live worker, until `expires_at` · 2 ended · 3 no such run.
CREATE OR REPLACE FUNCTION take(
    given bigint, given_boot text, given_second bigint, run_id text, own text, steals boolean, is_again boolean,
    OUT code integer, OUT expires_at bigint, OUT run run_rows)
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    there record;
    lease workers;
BEGIN
    SELECT no, status, instance INTO there FROM runs WHERE id = run_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        code := 3;
        RETURN;
    END IF;
    SELECT * INTO lease FROM workers WHERE instance = there.instance;
    IF there.status IN ('completed', 'failed', 'cancelled') THEN
        code := 2;
    ELSIF is_again AND there.instance = own THEN
        code := 0;  -- by our earlier try, whose answer was lost
    ELSIF there.instance <> '' AND NOT steals
        AND coalesce(_is_live(lease, coalesce(given_boot, ''), _second(given_second)), false)
    THEN
        code := 1;
        expires_at := _now(given) + lease.expires - _second(given_second);
    ELSE
        code := 0;
        UPDATE runs SET epoch = epoch + 1, instance = own, ready = NULL, gated = CASE WHEN gated = 1 THEN 2 ELSE gated END,
            -- Only an instant counts as an end; otherwise the run could never end.
            ended_at = CASE WHEN ended_at BETWEEN -62135596800000000 AND 253402300799999999 THEN ended_at END,
            worker = coalesce((SELECT workers.worker FROM workers WHERE workers.instance = own), '')
        WHERE no = there.no;
    END IF;
    SELECT r.* INTO run FROM run_rows AS r WHERE r.no = there.no;
END
$$;

-- release: gives a run back without a turn, fenced by epoch. Locks its row. A worker that can release was not killed by the
-- run, so the claim is not counted. A run that has not begun waits at the gate of its queue again, if that has one.
CREATE OR REPLACE FUNCTION release(given bigint, run_no bigint, run_epoch bigint, until bigint, seen bigint, new_note text) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    released text;
BEGIN
    UPDATE runs SET instance = '', claims = greatest(0, claims - 1), deaths = 0, note = new_note,
        bounces = bounces + (new_note <> '')::int,
        available_at = CASE WHEN inbox_last > seen THEN moment ELSE until END,
        gated = CASE WHEN gated = 2 AND started_at IS NULL THEN 1 ELSE gated END,
        ready = CASE
            WHEN status = 'paused' THEN NULL
            WHEN inbox_last > seen THEN 1
            ELSE (until <= moment)::int END * CASE WHEN gated > 0 AND started_at IS NULL THEN 2 ELSE 1 END
    WHERE no = run_no AND epoch = run_epoch AND status NOT IN ('completed', 'failed', 'cancelled')
    RETURNING id INTO released;
    RETURN released;
END
$$;

-- release_all: everything an instance holds, available now, and its end. Locks the runs, in order.
CREATE OR REPLACE FUNCTION release_all(given bigint, own text) RETURNS text[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    moment bigint := _now(given);
    held bigint[];
    released text[];
BEGIN
    held := ARRAY(SELECT no FROM runs WHERE instance = own AND instance <> '' ORDER BY no FOR NO KEY UPDATE);
    WITH freed AS (
        UPDATE runs SET instance = '', claims = greatest(0, claims - 1), deaths = 0, available_at = moment,
            gated = CASE WHEN gated = 2 AND started_at IS NULL THEN 1 ELSE gated END,
            ready = CASE WHEN status = 'paused' THEN NULL ELSE 1 END
                * CASE WHEN gated > 0 AND started_at IS NULL THEN 2 ELSE 1 END
        WHERE no = ANY (held) AND instance = own RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO released FROM freed;
    UPDATE workers SET has_ended = true, seen_at = moment WHERE instance = own;
    RETURN released;
END
$$;

-- known_workers: every instance with how many runs it holds, and the moment to judge its lease by. Locks nothing.
CREATE OR REPLACE FUNCTION known_workers(given_second bigint)
RETURNS TABLE (
    instance text, worker text, queues text, definitions text, pid bigint, host text, started_at bigint,
    has_ended boolean, lease_boot text, expires bigint, progress text, recovery text, seen_at bigint, active bigint,
    second bigint)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT w.instance, w.worker, w.queues, w.definitions, w.pid, w.host, w.started_at, w.has_ended, w.lease_boot,
        w.expires, w.progress, w.recovery, w.seen_at, (SELECT count(*) FROM runs AS r WHERE r.instance = w.instance AND r.instance <> ''),
        (SELECT _second(given_second))
    FROM workers AS w ORDER BY w.started_at, w.instance
$$;

-- lease_of: the live holder of a run, if any. Locks nothing.
CREATE OR REPLACE FUNCTION lease_of(given bigint, given_boot text, given_second bigint, run_id text)
RETURNS TABLE (worker text, instance text, epoch integer, expires_at bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    second bigint := _second(given_second);
BEGIN
    RETURN QUERY
        SELECT r.worker, r.instance, r.epoch, _now(given) + w.expires - second FROM runs AS r
        JOIN workers AS w ON w.instance = r.instance
        WHERE r.id = run_id AND r.instance <> '' AND _is_live(w, coalesce(given_boot, ''), second);
END
$$;

-- reinstate: the run was freed from a holder that lives and may continue. Epoch as it was: no fence. Locks the row of the
-- run, then that of the instance, as register does, so that an instance which ends meanwhile leaves nothing held.
CREATE OR REPLACE FUNCTION reinstate(run_id text, holder text, held_epoch bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    run_no bigint;
BEGIN
    SELECT no INTO run_no FROM runs
    WHERE id = run_id AND epoch = held_epoch AND instance IN ('', holder) AND status IN ('pending', 'running')
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM workers AS w WHERE w.instance = holder AND NOT w.has_ended FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE runs SET instance = holder, ready = NULL WHERE no = run_no;
    PERFORM _take_back(holder, run_id);
    RETURN true;
END
$$;
