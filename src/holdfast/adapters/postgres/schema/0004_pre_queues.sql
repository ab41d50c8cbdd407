-- Functions of queues: their rules, and which runs their gates let in. `core.gate` is the same in Python.
--
-- Locks: a claim locks the rows of its queues first, in the order of their names, then what every claim locks. So
-- claims pass the gate of a queue one after the other, and their counts are exact. A transaction that brings a run to a gate
-- locks the row of its share against leaving (KEY SHARE); a claim that moves the share does not wait for that lock, and only
-- unlocked shares leave the line. New shares are locked in order (`_line_up`), so two transactions never deadlock.

-- Puts the share of a run in line, unless it is there: where it was, but not below the time of its queue.
CREATE OR REPLACE FUNCTION _join_line(of_queue text, of_share text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM 1 FROM shares WHERE queue = of_queue AND share = of_share AND NOT is_away FOR KEY SHARE;
        EXIT WHEN FOUND;
        PERFORM 1 FROM queues WHERE name = of_queue;
        IF NOT FOUND THEN
            INSERT INTO queues (name) VALUES (of_queue) ON CONFLICT DO NOTHING;
        END IF;
        INSERT INTO shares AS s (queue, share, time) SELECT of_queue, of_share, time FROM queues WHERE name = of_queue
        ON CONFLICT (queue, share) DO UPDATE SET is_away = false, time = greatest(s.time, excluded.time) WHERE s.is_away;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION _run_at_gate() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM _join_line(NEW.queue, NEW.share);
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS run_made_at_gate ON runs;
CREATE TRIGGER run_made_at_gate AFTER INSERT ON runs FOR EACH ROW WHEN (NEW.ready = 2) EXECUTE FUNCTION _run_at_gate();
DROP TRIGGER IF EXISTS run_came_to_gate ON runs;
CREATE TRIGGER run_came_to_gate AFTER UPDATE OF ready ON runs FOR EACH ROW WHEN (NEW.ready = 2)
EXECUTE FUNCTION _run_at_gate();

-- Puts the shares of new runs in line, in order. Does nothing for runs that will not wait.
CREATE OR REPLACE FUNCTION _line_up(news jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _join_line(one.queue, one.share) FROM (
        SELECT DISTINCT n ->> 'queue' COLLATE "C" AS queue, coalesce(n ->> 'share', n ->> 'workflow') COLLATE "C" AS share
        FROM jsonb_array_elements(news) AS n LEFT JOIN queues ON name = n ->> 'queue'
        WHERE NOT n ? 'rides' AND (n ? 'share' OR coalesce(is_gated, false)) ORDER BY 1, 2) AS one;
END
$$;

-- change_queue: new rules, if the queue has the expected revision. Its row exists (`ensure_queue`). With its first rules
-- a queue gets a gate: begun runs have places, waiting ones wait at the gate. Locks the row of the queue and, for the first
-- rules, all writers of runs: runs made afterwards see the gate.
CREATE OR REPLACE FUNCTION change_queue(
    wanted text, expected bigint, shuts boolean, new_gate jsonb, new_body bytea) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '3s' AS $$
DECLARE
    was_gated boolean;
BEGIN
    SELECT is_gated INTO was_gated FROM queues WHERE name = wanted AND revision = expected FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE queues SET revision = expected + 1, is_gated = shuts, gate = new_gate, body = new_body WHERE name = wanted;
    IF shuts AND NOT was_gated THEN
        LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE;
        UPDATE runs SET gated = CASE WHEN started_at IS NOT NULL OR instance <> '' THEN 2 ELSE 1 END,
            share = CASE WHEN share = '' THEN workflow ELSE share END,
            ready = CASE WHEN ready = 1 AND started_at IS NULL AND instance = '' THEN 2 ELSE ready END
        WHERE queue = wanted AND gated = 0 AND parent = '' AND status IN ('pending', 'running', 'paused');
    END IF;
    RETURN true;
END
$$;

-- The definitions of the runs that wait in a share: one index seek for each.
CREATE OR REPLACE FUNCTION _definitions_at_gate(of_queue text, of_share text) RETURNS TABLE (workflow text, version text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT r.workflow, r.version INTO workflow, version FROM runs AS r
    WHERE ready = 2 AND queue = of_queue AND share = of_share ORDER BY r.workflow, r.version LIMIT 1;
    WHILE workflow IS NOT NULL LOOP
        RETURN NEXT;
        SELECT r.workflow, r.version INTO workflow, version FROM runs AS r
        WHERE ready = 2 AND queue = of_queue AND share = of_share
            AND (r.workflow, r.version) > (_definitions_at_gate.workflow, _definitions_at_gate.version)
        ORDER BY r.workflow, r.version LIMIT 1;
    END LOOP;
END
$$;

-- How many runs of a queue, or of one of its shares, have a place.
CREATE OR REPLACE FUNCTION _begun(of_queue text, of_share text, frees_parked boolean, moment bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM runs
    WHERE gated = 2 AND ended_at IS NULL AND queue = of_queue AND (of_share IS NULL OR share = of_share)
        AND (NOT frees_parked OR instance <> '' OR ready = 1 OR (ready = 0 AND available_at <= moment))
$$;

-- Of these shares, those that have no runs waiting leave the line. Looks again once it has the lock: a run that came in the
-- meantime is visible then, and one that is about to come waits for the lock.
CREATE OR REPLACE FUNCTION _leave_line(of_queue text, names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    locked text[];
BEGIN
    locked := ARRAY(
        SELECT share FROM shares AS s WHERE queue = of_queue AND share = ANY (names) AND NOT is_away
            AND NOT EXISTS (SELECT 1 FROM runs WHERE ready = 2 AND queue = of_queue AND share = s.share)
        FOR UPDATE SKIP LOCKED);
    UPDATE shares AS s SET is_away = true WHERE queue = of_queue AND share = ANY (locked)
        AND NOT EXISTS (SELECT 1 FROM runs WHERE ready = 2 AND queue = of_queue AND share = s.share);
END
$$;

-- The share is first in line for a worker: puts off runs that no worker can run. A share without runs leaves the line.
CREATE OR REPLACE FUNCTION _visit_share(
    moment bigint, boot text, second bigint, of_queue text, of_share text, workflows text[], versions text[],
    put_off integer) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    kind record;
    is_empty boolean := true;
    delayed text[] := '{}';
BEGIN
    FOR kind IN SELECT * FROM _definitions_at_gate(of_queue, of_share) LOOP
        is_empty := false;
        IF NOT EXISTS (
            SELECT 1 FROM unnest(workflows, versions) AS o(workflow, version)
            WHERE o.workflow = kind.workflow AND o.version = kind.version)
            AND NOT EXISTS (
                SELECT 1 FROM _held_definitions(boot, second) AS h
                WHERE h.workflow = kind.workflow AND h.version = kind.version)
        THEN
            delayed := delayed || ARRAY(SELECT unnest(ARRAY[d.id, d.note]) FROM _put_off(moment, ARRAY(
                SELECT no FROM runs WHERE ready = 2 AND queue = of_queue AND share = of_share
                    AND workflow = kind.workflow AND version = kind.version
                ORDER BY priority DESC, available_at, no LIMIT put_off FOR NO KEY UPDATE SKIP LOCKED)) AS d);
        END IF;
    END LOOP;
    IF is_empty THEN
        PERFORM _leave_line(of_queue, ARRAY[of_share]);
    END IF;
    RETURN delayed;
END
$$;

-- The runs that a gate lets in for a worker, in order, with their shares and the virtual times before and after each. The
-- caller has locked the queue's row. Reads shares in order of their times, each once; those that may have more runs are kept
-- in arrays. `only_ids`: of these runs alone. Locks the runs that it puts off.
CREATE OR REPLACE FUNCTION _admitted(
    moment bigint, boot text, second bigint, own text, of_queue text, workflows text[], versions text[], most integer,
    only_ids text[], put_off integer,
    OUT nos bigint[], OUT picked text[], OUT starts bigint[], OUT finishes bigint[], OUT next_at bigint,
    OUT delayed text[])
LANGUAGE plpgsql AS $$
DECLARE
    rule queues;
    frees boolean;
    places bigint := most;
    slack bigint;
    met text[] := '{}';
    times bigint[] := '{}';
    room bigint[] := '{}';
    least bigint[] := '{}';  -- where each may begin; null until it does
    level bigint;
    coming record;
    is_asked boolean := false;
    last_time bigint := -1;
    last_share text := '';
    best record;
    chosen bigint;
BEGIN
    nos := '{}'; picked := '{}'; starts := '{}'; finishes := '{}'; delayed := '{}';
    SELECT * INTO rule FROM queues WHERE name = of_queue;
    level := rule.time + 9 * 1000000;
    IF coalesce((rule.gate ->> 'is_paused')::boolean, false) THEN
        RETURN;
    END IF;
    frees := coalesce((rule.gate ->> 'frees_parked')::boolean, false);
    IF rule.gate ? 'at_once' THEN
        places := least(places, (rule.gate ->> 'at_once')::bigint - _begun(of_queue, NULL, frees, moment));
    END IF;
    IF rule.gate ? 'per_worker' THEN
        places := least(places, (rule.gate ->> 'per_worker')::bigint - (
            SELECT count(*) FROM runs WHERE instance = own AND instance <> '' AND queue = of_queue AND gated = 2));
    END IF;
    IF rule.gate ? 'interval' AND places > 0 THEN
        slack := (rule.gate ->> 'interval')::bigint * (coalesce((rule.gate ->> 'burst')::bigint, 1) - 1)
            - greatest(rule.until - moment, 0);
        IF slack < 0 THEN
            next_at := moment - slack;
            RETURN;
        END IF;
        places := least(places, slack / (rule.gate ->> 'interval')::bigint + 1);
    END IF;
    WHILE cardinality(nos) < places LOOP
        IF NOT is_asked THEN
            IF only_ids IS NULL THEN
                SELECT s.time, s.share INTO coming FROM shares AS s
                WHERE s.queue = of_queue AND NOT s.is_away AND (s.time, s.share) > (last_time, last_share)
                ORDER BY s.time, s.share LIMIT 1;
            ELSE
                SELECT coalesce(s.time, rule.time) AS time, r.share INTO coming
                FROM (SELECT DISTINCT share FROM runs WHERE id = ANY (only_ids) AND queue = of_queue AND gated = 1) AS r
                LEFT JOIN shares AS s ON s.queue = of_queue AND s.share = r.share
                WHERE (coalesce(s.time, rule.time), r.share) > (last_time, last_share) ORDER BY 1, 2 LIMIT 1;
            END IF;
            is_asked := true;
        END IF;
        SELECT m.time, m.share, m.place INTO best
        FROM unnest(times, met, room) WITH ORDINALITY AS m(time, share, room, place)
        WHERE m.room > 0 ORDER BY m.time, m.share COLLATE "C" LIMIT 1;
        IF coming.share IS NOT NULL
            AND (best.share IS NULL OR (coming.time, coming.share COLLATE "C") <= (best.time, best.share COLLATE "C"))
        THEN
            met := met || coming.share;
            times := times || coming.time;
            room := room || CASE WHEN rule.gate ? 'share_at_once'
                THEN (rule.gate ->> 'share_at_once')::bigint - _begun(of_queue, coming.share, frees, moment)
                ELSE most END;
            least := least || NULL::bigint;
            last_time := coming.time;
            last_share := coming.share;
            is_asked := false;
            IF only_ids IS NULL THEN
                delayed := delayed || _visit_share(
                    moment, boot, second, of_queue, coming.share, workflows, versions, put_off);
            END IF;
            CONTINUE;
        END IF;
        EXIT WHEN best.share IS NULL;
        SELECT r.no INTO chosen FROM unnest(workflows, versions) AS d(workflow, version) CROSS JOIN LATERAL (
            SELECT runs.no, runs.priority, runs.available_at FROM runs
            WHERE ready = 2 AND queue = of_queue AND share = best.share AND runs.workflow = d.workflow
                AND runs.version = d.version AND runs.no <> ALL (nos) AND only_ids IS NULL
            ORDER BY runs.priority DESC, runs.available_at, runs.no LIMIT 1) AS r
        ORDER BY r.priority DESC, r.available_at, r.no LIMIT 1;
        IF only_ids IS NOT NULL THEN
            SELECT r.no INTO chosen FROM runs AS r JOIN unnest(workflows, versions) AS d(workflow, version)
                ON d.workflow = r.workflow AND d.version = r.version
            WHERE r.id = ANY (only_ids) AND r.queue = of_queue AND r.share = best.share AND r.gated = 1
                AND r.ready IS DISTINCT FROM 1 AND r.instance = '' AND r.status IN ('pending', 'running')
                AND r.available_at <= moment AND r.no <> ALL (nos)
            ORDER BY r.priority DESC, r.available_at, r.no LIMIT 1;
        END IF;
        IF chosen IS NULL THEN
            room[best.place] := 0;
            CONTINUE;
        END IF;
        nos := nos || chosen;
        picked := picked || best.share;
        IF least[best.place] IS NULL THEN
            least[best.place] := CASE
                WHEN best.time < level AND EXISTS (
                    SELECT 1 FROM runs WHERE ready = 2 AND queue = of_queue AND share = best.share OFFSET 30) THEN level
                ELSE rule.time END;
        END IF;
        best.time := greatest(best.time, least[best.place]);
        starts := starts || best.time;
        room[best.place] := room[best.place] - 1;
        times[best.place] := best.time + greatest(1, round(
            1000000 / coalesce((rule.gate -> 'weights' ->> best.share)::double precision, 1))::bigint);
        finishes := finishes || times[best.place];
    END LOOP;
END
$$;

-- These runs begin: advances the times of their shares and of the queue, and uses up the rate. Forgets some shares that are
-- away and would come back where any new one does: more than begin, so claims keep up. While few shares are in line, those
-- that have no more runs stay there until they are met or any new share would come before them: a start of theirs need not
-- write their rows.
CREATE OR REPLACE FUNCTION _let_in(
    moment bigint, of_queue text, picked text[], starts bigint[], finishes bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    reached bigint;
BEGIN
    INSERT INTO shares AS s (queue, share, time)
    SELECT of_queue, p.share, max(p.finish) FROM unnest(picked, finishes) AS p(share, finish) GROUP BY p.share ORDER BY 2
    ON CONFLICT (queue, share) DO UPDATE SET time = excluded.time;
    UPDATE queues SET
        time = greatest(time + 100 * cardinality(picked), (SELECT max(start) FROM unnest(starts) AS start) - 9 * 1000000),
        until = CASE WHEN gate ? 'interval'
            THEN greatest(until, moment) + (gate ->> 'interval')::bigint * cardinality(picked) ELSE until END
    WHERE name = of_queue RETURNING time INTO reached;
    IF EXISTS (SELECT 1 FROM shares WHERE queue = of_queue AND NOT is_away OFFSET 100) THEN
        PERFORM _leave_line(of_queue, picked);
    ELSE
        PERFORM _leave_line(of_queue, ARRAY(
            SELECT share FROM shares WHERE queue = of_queue AND NOT is_away AND time < reached));
    END IF;
    DELETE FROM shares WHERE (queue, share) IN (
        SELECT queue, share FROM shares WHERE queue = of_queue AND is_away AND time <= reached ORDER BY time
        LIMIT 2 * cardinality(picked) FOR UPDATE SKIP LOCKED);
END
$$;

-- queue_load: counts the runs that wait at the gate of a queue or have a place. Locks nothing.
CREATE OR REPLACE FUNCTION queue_load(
    given bigint, wanted text, most integer, OUT waiting bigint, OUT oldest text, OUT since bigint, OUT begun bigint,
    OUT parked bigint, OUT moment bigint, OUT until bigint, OUT gate text, OUT share_count bigint,
    OUT names text[], OUT waits bigint[], OUT places bigint[])
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    moment := _now(given);
    SELECT count(*), count(DISTINCT share) INTO waiting, share_count FROM runs WHERE ready = 2 AND queue = wanted;
    SELECT r.id, r.available_at INTO oldest, since FROM runs AS r WHERE ready = 2 AND queue = wanted
    ORDER BY r.available_at, r.no LIMIT 1;
    begun := _begun(wanted, NULL, false, moment);
    parked := begun - _begun(wanted, NULL, true, moment);
    SELECT q.until, q.gate::text INTO until, gate FROM queues AS q WHERE q.name = wanted;
    SELECT array_agg(s.share ORDER BY s.count DESC, s.share), array_agg(s.count ORDER BY s.count DESC, s.share),
        array_agg(_begun(wanted, s.share, false, moment) ORDER BY s.count DESC, s.share)
    INTO names, waits, places FROM (
        SELECT share, count(*) AS count FROM runs WHERE ready = 2 AND queue = wanted GROUP BY share
        ORDER BY count(*) DESC, share LIMIT most) AS s;
END
$$;
