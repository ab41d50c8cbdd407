"""The statements of limits. They run in a transaction of their own, which locks lines first, sorted, and runs after.

No transaction that has locked a run asks for a line, so no two wait for each other; and a run that another transaction
has locked is not woken in that moment (`sleepers` passes it over), but by the next look at its line.
A place counts while its run is held with the same epoch and has not ended (`is_held`).
"""

from __future__ import annotations

from holdfast.adapters.limits.sql_desk import LimitStatements

NOW = "SELECT {s}._now(%b::bigint)"

STATEMENTS = LimitStatements(
    # is_current: no claim comes between, so what is dropped is not what a later holder has.
    is_current="SELECT 1 FROM {s}.runs WHERE no = %b::bigint AND epoch = %b::bigint FOR SHARE",
    held="""
        SELECT no, epoch FROM {s}.runs WHERE no = ANY (%b::bigint[]) AND instance <> '' AND ended_at IS NULL
    """,
    setting="SELECT interval_us, burst, at_once, is_paused FROM {s}.limits WHERE name = %b::text",
    make_lines="""
        INSERT INTO {s}.rates (name, key, tat, quiet_until)
        SELECT l.name, l.key, 0, 0 FROM unnest(%b::text[], %b::text[]) AS l (name, key)
        ON CONFLICT DO NOTHING RETURNING 1
    """,
    # lock_lines: in order. No other transaction reads or writes their places, tokens and waiters meanwhile.
    lock_lines="""
        SELECT r.name, r.key, r.tat, r.quiet_until
        FROM unnest(%b::text[], %b::text[]) AS l (name, key) JOIN {s}.rates AS r ON r.name = l.name AND r.key = l.key
        ORDER BY r.name, r.key FOR UPDATE OF r
    """,
    line="SELECT tat, quiet_until FROM {s}.rates WHERE name = %b::text AND key = %b::text",
    put_line="""
        UPDATE {s}.rates SET tat = %b::bigint, quiet_until = %b::bigint WHERE name = %b::text AND key = %b::text
        RETURNING 1
    """,
    free_slots="""
        DELETE FROM {s}.places AS p WHERE name = %b::text AND key = %b::text AND NOT EXISTS (SELECT 1 FROM {s}.runs AS r
            WHERE r.no = p.run AND r.epoch = p.epoch AND r.instance <> '' AND r.ended_at IS NULL)
        RETURNING 1
    """,
    slots="SELECT slot FROM {s}.places WHERE name = %b::text AND key = %b::text",
    places="SELECT name, key, run, step, epoch FROM {s}.places WHERE run = ANY (%b::bigint[])",
    add_place="""
        INSERT INTO {s}.places (name, key, slot, run, step, epoch)
        VALUES (%b::text, %b::text, %b::bigint, %b::bigint, %b::text, %b::bigint) RETURNING 1
    """,
    lines_of="""
        SELECT x.name, x.key, x.run, x.step FROM (SELECT %b::bigint[] AS runs) AS given CROSS JOIN LATERAL (
            SELECT name, key, run, step FROM {s}.places WHERE run = ANY (given.runs)
            UNION SELECT name, key, run, step FROM {s}.waiters WHERE run = ANY (given.runs)) AS x
    """,
    drop_places="DELETE FROM {s}.places WHERE run = %b::bigint AND step = %b::text RETURNING 1",
    drop_waiter="DELETE FROM {s}.waiters WHERE run = %b::bigint AND step = %b::text RETURNING 1",
    waiters="""
        SELECT name, key, since, run, step, woken_at, seq FROM {s}.waiters WHERE run = ANY (%b::bigint[])
    """,
    # put_waiter: one that waits already keeps the time of its first refusal, and its number.
    put_waiter="""
        INSERT INTO {s}.waiters (name, key, since, run, step)
        VALUES (%b::text, %b::text, %b::bigint, %b::bigint, %b::text)
        ON CONFLICT (run, step) DO UPDATE SET name = excluded.name, key = excluded.key, woken_at = NULL RETURNING 1
    """,
    has_ahead="""
        SELECT 1 FROM {s}.waiters AS w WHERE name = %b::text AND key = %b::text
            AND (since, seq) < (%b::bigint, %b::bigint) AND (woken_at >= %b::bigint OR woken_at IS NULL
                AND EXISTS (SELECT 1 FROM {s}.runs AS r WHERE r.no = w.run AND r.status IN ('pending', 'running')))
        LIMIT 1
    """,
    awake="""
        SELECT count(*) FROM {s}.waiters WHERE name = %b::text AND key = %b::text AND woken_at >= %b::bigint
    """,
    sleepers="""
        SELECT w.name, w.key, w.since, w.run, w.step, w.woken_at, w.seq
        FROM {s}.waiters AS w JOIN {s}.runs AS r ON r.no = w.run
        WHERE w.name = %b::text AND w.key = %b::text AND w.woken_at IS NULL AND r.status IN ('pending', 'running')
        ORDER BY w.since, w.seq LIMIT %b::bigint FOR NO KEY UPDATE OF r SKIP LOCKED
    """,
    set_woken="""
        UPDATE {s}.waiters SET woken_at = %b::bigint WHERE run = %b::bigint AND step = %b::text RETURNING 1
    """,
    id_of="SELECT id FROM {s}.runs WHERE no = %b::bigint",
    due="""
        UPDATE {s}.runs AS r SET available_at = least(coalesce(r.available_at, n.at), n.at),
            ready = CASE WHEN least(coalesce(r.available_at, n.at), n.at) <= n.now THEN 1 ELSE 0 END
        FROM (SELECT %b::bigint AS at, %b::bigint AS now) AS n
        WHERE r.no = %b::bigint AND r.instance = '' AND r.status IN ('pending', 'running') RETURNING 1
    """,
    hurry="""
        UPDATE {s}.runs AS r SET available_at = r.created_at, ready = 1
        FROM (
            SELECT h.no FROM {s}.waiters AS w JOIN {s}.runs AS h ON h.no = w.run, (SELECT %b::bigint AS now) AS n
            WHERE w.name = %b::text AND w.key = %b::text AND w.woken_at <= n.now AND h.instance = ''
                AND h.status IN ('pending', 'running') AND h.available_at > h.created_at AND h.available_at <= n.now
            FOR NO KEY UPDATE OF h SKIP LOCKED) AS found
        WHERE r.no = found.no RETURNING 1
    """,
    woken="SELECT min(woken_at) FROM {s}.waiters WHERE run = %b::bigint",
    waited_lines="SELECT DISTINCT name, key FROM {s}.waiters LIMIT %b::bigint",
    lines_of_limit="SELECT DISTINCT key FROM {s}.waiters WHERE name = %b::text",
    forget_ended="""
        DELETE FROM {s}.waiters AS w WHERE name = %b::text AND key = %b::text
            AND NOT EXISTS (SELECT 1 FROM {s}.runs AS r WHERE r.no = w.run AND r.ended_at IS NULL) RETURNING 1
    """,
    wake_again="""
        UPDATE {s}.waiters AS w SET woken_at = NULL
        WHERE name = %b::text AND key = %b::text AND woken_at < %b::bigint
            AND EXISTS (SELECT 1 FROM {s}.runs AS r WHERE r.no = w.run AND r.instance = ''
                AND r.status IN ('pending', 'running') AND (r.available_at IS NULL OR r.available_at > %b::bigint))
        RETURNING 1
    """,
    limit="SELECT name, revision, interval_us, burst, at_once, is_paused, body FROM {s}.limits WHERE name = %b::text",
    limits="""
        SELECT name, revision, interval_us, burst, at_once, is_paused, body FROM {s}.limits WHERE name > %b::text
        ORDER BY name LIMIT %b::bigint
    """,
    make_limit="""
        INSERT INTO {s}.limits (interval_us, burst, at_once, is_paused, body, name, revision)
        VALUES (%b::bigint, %b::bigint, %b::bigint, %b::boolean, %b::bytea, %b::text, 1)
        ON CONFLICT DO NOTHING RETURNING 1
    """,
    put_limit="""
        UPDATE {s}.limits SET interval_us = %b::bigint, burst = %b::bigint, at_once = %b::bigint,
            is_paused = %b::boolean, body = %b::bytea, revision = revision + 1
        WHERE name = %b::text AND revision = %b::bigint RETURNING 1
    """,
    listed_lines="""
        SELECT key, held, waiting, oldest FROM (
            SELECT l.key,
                (SELECT count(*) FROM {s}.places AS p JOIN {s}.runs AS r ON r.no = p.run
                    WHERE p.name = l.name AND p.key = l.key
                        AND r.epoch = p.epoch AND r.instance <> '' AND r.ended_at IS NULL) AS held,
                (SELECT count(*) FROM {s}.waiters AS w WHERE w.name = l.name AND w.key = l.key) AS waiting,
                (SELECT min(w.since) FROM {s}.waiters AS w WHERE w.name = l.name AND w.key = l.key) AS oldest
            FROM {s}.rates AS l WHERE l.name = %b::text AND (l.key > %b::text OR %b::boolean)) AS found
        WHERE held > 0 OR waiting > 0 ORDER BY key LIMIT %b::bigint
    """,
    # busiest_lines: counts every line of the limit; only people ask for it. Locks nothing.
    busiest_lines="""
        SELECT key, held, waiting, oldest FROM (
            SELECT l.key,
                (SELECT count(*) FROM {s}.places AS p JOIN {s}.runs AS r ON r.no = p.run
                    WHERE p.name = l.name AND p.key = l.key
                        AND r.epoch = p.epoch AND r.instance <> '' AND r.ended_at IS NULL) AS held,
                (SELECT count(*) FROM {s}.waiters AS w WHERE w.name = l.name AND w.key = l.key) AS waiting,
                (SELECT min(w.since) FROM {s}.waiters AS w WHERE w.name = l.name AND w.key = l.key) AS oldest
            FROM {s}.rates AS l WHERE l.name = %b::text) AS found
        WHERE held > 0 OR waiting > 0 ORDER BY waiting DESC, held DESC, key LIMIT %b::bigint
    """,
    holders="""
        SELECT r.id, p.step FROM {s}.places AS p JOIN {s}.runs AS r ON r.no = p.run
        WHERE p.name = %b::text AND p.key = %b::text
            AND r.epoch = p.epoch AND r.instance <> '' AND r.ended_at IS NULL ORDER BY p.slot LIMIT %b::bigint
    """,
    places_of="""
        SELECT p.name, p.key, p.step FROM {s}.places AS p JOIN {s}.runs AS r ON r.no = p.run
        WHERE r.id = %b::text AND r.epoch = p.epoch AND r.instance <> '' AND r.ended_at IS NULL ORDER BY p.name, p.key
    """,
    waiters_of="""
        SELECT w.name, w.key, w.since, w.run, w.step, w.woken_at, w.seq
        FROM {s}.waiters AS w JOIN {s}.runs AS r ON r.no = w.run WHERE r.id = %b::text ORDER BY w.since, w.seq
    """,
    ahead="""
        SELECT count(*) FROM {s}.waiters
        WHERE name = %b::text AND key = %b::text AND (since, seq) < (%b::bigint, %b::bigint)
    """,
)
