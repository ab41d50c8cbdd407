"""The statements of limits. SQLite has one writer, so nothing needs a separate lock.

A place counts while its run is held with the same epoch and has not ended (`is_held`): every statement that counts
places asks the run's row for it.
"""

from __future__ import annotations

from holdfast.adapters.limits.sql_desk import LimitStatements

LIMITS = """
-- Limits on steps. `body` is what `core.limit` knows of one; the columns are what the store decides by. A line is a
-- limit and one of its keys; places are numbered, so that two never have the same one. No foreign keys: a place or
-- waiter of a run that is gone counts for nothing, and goes with the next look at its line.
CREATE TABLE limits (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    interval INTEGER,
    burst INTEGER NOT NULL,
    at_once INTEGER,
    is_paused INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE rates (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    tat INTEGER NOT NULL,
    quiet_until INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE places (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    slot INTEGER NOT NULL,
    run INTEGER NOT NULL,
    step TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (name, key, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX places_by_run ON places (run, step);
CREATE TABLE waiters (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    since INTEGER NOT NULL,
    run INTEGER NOT NULL,
    step TEXT NOT NULL,
    woken_at INTEGER
) STRICT;
CREATE UNIQUE INDEX waiters_by_run ON waiters (run, step);
CREATE INDEX waiters_asleep ON waiters (name, key, since, seq) WHERE woken_at IS NULL;
CREATE INDEX waiters_woken ON waiters (name, key, woken_at) WHERE woken_at IS NOT NULL;
CREATE INDEX waiters_by_line ON waiters (name, key, since, seq);
"""

STATEMENTS = LimitStatements(
    is_current="SELECT 1 FROM runs WHERE no = ? AND epoch = ?",
    held="""
        SELECT no, epoch FROM runs WHERE no IN (SELECT value FROM json_each(?)) AND instance <> '' AND ended_at IS NULL
    """,
    setting="SELECT interval, burst, at_once, is_paused FROM limits WHERE name = ?",
    make_lines="""
        INSERT INTO rates (name, key, tat, quiet_until)
        SELECT n.value, k.value, 0, 0 FROM json_each(?) AS n JOIN json_each(?) AS k ON n.key = k.key
        WHERE true ON CONFLICT DO NOTHING
    """,
    # lock_lines: CROSS JOIN keeps this order. By itself SQLite reads every key of the limit to find those asked for.
    lock_lines="""
        SELECT rates.name, rates.key, tat, quiet_until
        FROM json_each(?) AS n CROSS JOIN json_each(?) AS k ON n.key = k.key
        CROSS JOIN rates ON rates.name = n.value AND rates.key = k.value
    """,
    line="SELECT tat, quiet_until FROM rates WHERE name = ? AND key = ?",
    put_line="UPDATE rates SET tat = ?, quiet_until = ? WHERE name = ? AND key = ?",
    free_slots="""
        DELETE FROM places WHERE name = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE no = places.run
            AND epoch = places.epoch AND instance <> '' AND ended_at IS NULL)
    """,
    slots="SELECT slot FROM places WHERE name = ? AND key = ?",
    places="SELECT name, key, run, step, epoch FROM places WHERE run IN (SELECT value FROM json_each(?))",
    add_place="INSERT INTO places (name, key, slot, run, step, epoch) VALUES (?, ?, ?, ?, ?, ?)",
    lines_of="""
        SELECT name, key, run, step FROM places WHERE run IN (SELECT value FROM json_each(?1))
        UNION SELECT name, key, run, step FROM waiters WHERE run IN (SELECT value FROM json_each(?1))
    """,
    drop_places="DELETE FROM places WHERE run = ? AND step = ?",
    drop_waiter="DELETE FROM waiters WHERE run = ? AND step = ?",
    waiters="""
        SELECT name, key, since, run, step, woken_at, seq FROM waiters WHERE run IN (SELECT value FROM json_each(?))
    """,
    # put_waiter: one that waits already keeps the time of its first refusal, and its number.
    put_waiter="""
        INSERT INTO waiters (name, key, since, run, step) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (run, step) DO UPDATE SET name = excluded.name, key = excluded.key, woken_at = NULL
    """,
    has_ahead="""
        SELECT 1 FROM waiters WHERE name = ?1 AND key = ?2 AND (since, seq) < (?3, ?4) AND (woken_at >= ?5
            OR woken_at IS NULL
                AND EXISTS (SELECT 1 FROM runs WHERE no = waiters.run AND status IN ('pending', 'running')))
        LIMIT 1
    """,
    awake="SELECT count(*) FROM waiters WHERE name = ? AND key = ? AND woken_at >= ?",
    sleepers="""
        SELECT name, key, since, run, step, woken_at, seq FROM waiters WHERE name = ? AND key = ? AND woken_at IS NULL
            AND EXISTS (SELECT 1 FROM runs WHERE no = waiters.run AND status IN ('pending', 'running'))
        ORDER BY since, seq LIMIT ?
    """,
    set_woken="UPDATE waiters SET woken_at = ? WHERE run = ? AND step = ?",
    id_of="SELECT id FROM runs WHERE no = ?",
    due="""
        UPDATE runs SET available_at = min(coalesce(available_at, ?1), ?1),
            ready = CASE WHEN min(coalesce(available_at, ?1), ?1) <= ?2 THEN 1 ELSE 0 END
        WHERE no = ?3 AND instance = '' AND status IN ('pending', 'running')
    """,
    # hurry: before runs that were started later. A run that waits was due when it began, so it was not started later.
    hurry="""
        UPDATE runs SET available_at = created_at, ready = 1
        WHERE no IN (SELECT run FROM waiters WHERE name = ?2 AND key = ?3 AND woken_at <= ?1)
            AND instance = '' AND status IN ('pending', 'running') AND available_at BETWEEN created_at + 1 AND ?1
    """,
    woken="SELECT min(woken_at) FROM waiters WHERE run = ?",
    waited_lines="SELECT DISTINCT name, key FROM waiters LIMIT ?",
    lines_of_limit="SELECT DISTINCT key FROM waiters WHERE name = ?",
    forget_ended="""
        DELETE FROM waiters WHERE name = ? AND key = ?
            AND NOT EXISTS (SELECT 1 FROM runs WHERE no = waiters.run AND ended_at IS NULL)
    """,
    wake_again="""
        UPDATE waiters SET woken_at = NULL WHERE name = ?1 AND key = ?2 AND woken_at < ?3
            AND EXISTS (SELECT 1 FROM runs WHERE no = waiters.run AND instance = ''
                AND status IN ('pending', 'running') AND (available_at IS NULL OR available_at > ?4))
    """,
    limit="SELECT name, revision, interval, burst, at_once, is_paused, body FROM limits WHERE name = ?",
    limits="""
        SELECT name, revision, interval, burst, at_once, is_paused, body FROM limits WHERE name > ?
        ORDER BY name LIMIT ?
    """,
    make_limit="""
        INSERT INTO limits (interval, burst, at_once, is_paused, body, name, revision) VALUES (?, ?, ?, ?, ?, ?, 1)
        ON CONFLICT DO NOTHING RETURNING 1
    """,
    put_limit="""
        UPDATE limits SET interval = ?, burst = ?, at_once = ?, is_paused = ?, body = ?, revision = revision + 1
        WHERE name = ? AND revision = ? RETURNING 1
    """,
    listed_lines="""
        SELECT key, held, waiting, oldest FROM (
            SELECT key,
                (SELECT count(*) FROM places JOIN runs ON runs.no = places.run
                    WHERE places.name = rates.name AND places.key = rates.key
                        AND runs.epoch = places.epoch AND instance <> '' AND ended_at IS NULL) AS held,
                (SELECT count(*) FROM waiters WHERE waiters.name = rates.name AND waiters.key = rates.key) AS waiting,
                (SELECT min(since) FROM waiters WHERE waiters.name = rates.name AND waiters.key = rates.key) AS oldest
            FROM rates WHERE name = ?1 AND (key > ?2 OR ?3))
        WHERE held > 0 OR waiting > 0 ORDER BY key LIMIT ?4
    """,
    # busiest_lines: counts every line of the limit; only people ask for it.
    busiest_lines="""
        SELECT key, held, waiting, oldest FROM (
            SELECT key,
                (SELECT count(*) FROM places JOIN runs ON runs.no = places.run
                    WHERE places.name = rates.name AND places.key = rates.key
                        AND runs.epoch = places.epoch AND instance <> '' AND ended_at IS NULL) AS held,
                (SELECT count(*) FROM waiters WHERE waiters.name = rates.name AND waiters.key = rates.key) AS waiting,
                (SELECT min(since) FROM waiters WHERE waiters.name = rates.name AND waiters.key = rates.key) AS oldest
            FROM rates WHERE name = ?)
        WHERE held > 0 OR waiting > 0 ORDER BY waiting DESC, held DESC, key LIMIT ?
    """,
    holders="""
        SELECT id, step FROM places JOIN runs ON runs.no = places.run WHERE name = ? AND places.key = ?
            AND runs.epoch = places.epoch AND instance <> '' AND ended_at IS NULL ORDER BY slot LIMIT ?
    """,
    places_of="""
        SELECT name, places.key, step FROM places JOIN runs ON runs.no = places.run
        WHERE id = ? AND runs.epoch = places.epoch AND instance <> '' AND ended_at IS NULL ORDER BY name, places.key
    """,
    waiters_of="""
        SELECT name, waiters.key, since, run, step, woken_at, seq FROM waiters JOIN runs ON runs.no = waiters.run
        WHERE id = ? ORDER BY since, seq
    """,
    ahead="SELECT count(*) FROM waiters WHERE name = ? AND key = ? AND (since, seq) < (?, ?)",
)
