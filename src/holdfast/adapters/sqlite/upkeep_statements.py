"""The SQL of snapshots, compaction, retention and collection, named as in `statements`, and separate from what runs
need on their hot path."""

from __future__ import annotations

# -- snapshots and compaction ------------------------------------------------------------------------------------------

SNAPSHOT = "SELECT ordinal, checksum, body FROM snapshots WHERE run = ?"
# put snapshot: fenced by the row it covers, and by a later snapshot. Locks snapshots.
PUT_SNAPSHOT = """
INSERT INTO snapshots (run, ordinal, checksum, body)
SELECT run, ordinal, checksum, ?4 FROM events WHERE run = ?1 AND ordinal = ?2 AND checksum = ?3
ON CONFLICT (run) DO UPDATE SET ordinal = excluded.ordinal, checksum = excluded.checksum, body = excluded.body
WHERE excluded.ordinal >= snapshots.ordinal
RETURNING run
"""
SNAPSHOT_RUNS = "SELECT run FROM snapshots"
DROP_SNAPSHOT = "DELETE FROM snapshots WHERE run = ? RETURNING run"

# stand in: fenced by the row it replaces, which is not the newest of its run. Locks events.
STAND_IN = """
UPDATE events SET format = ?6, body = ?7
WHERE run = ?1 AND ordinal = ?2 AND epoch = ?3 AND at = ?4 AND checksum = ?5
    AND ordinal < (SELECT next_ordinal - 1 FROM runs WHERE no = ?1)
RETURNING seq
"""
DROP_BEFORE = "DELETE FROM events WHERE run = ? AND ordinal < ?"
# forget body: the ids of consumed messages stay, so that a sender's late retry is recognised. Locks inbox.
CONSUMED = """
SELECT inbox.no, runs.id, inbox.id, kind, body, checksum FROM inbox JOIN runs ON runs.no = inbox.run
WHERE inbox.run = ? AND consumed_ordinal <= ? AND body <> x''
"""
FORGET_BODY = "UPDATE inbox SET body = x'', checksum = ? WHERE run = ? AND no = ?"

# -- verifying: what is kept of a run, table by table ------------------------------------------------------------------

KEPT_RUN = "SELECT keep, ready IS NOT NULL FROM runs WHERE no = ?"
KEPT_MESSAGES = """
SELECT no, id, kind, body, coalesce(consumed_ordinal, 0), checksum FROM inbox WHERE run = ? ORDER BY no
"""
KEPT_VALUES = "SELECT name, value, blob, checksum FROM exposed WHERE run = ? ORDER BY name"
KEPT_ANSWERS = "SELECT message, asked, outcome, value, blob, checksum FROM answers WHERE run = ? ORDER BY message"
KEPT_SPANS = """
SELECT name, step, attempt, first_offset, end_offset, is_completed FROM stream_spans WHERE run = ?
ORDER BY name, end_offset
"""
KEPT_WATCHES = "SELECT topic, key, since FROM watchers WHERE run = ? ORDER BY rowid"
KEPT_BLOBS = "SELECT holder, blob FROM blob_blobs WHERE holder IN (SELECT blob FROM run_blobs WHERE run = ?)"
KEPT_ADOPTIONS = "SELECT watcher, key, message FROM adoptions WHERE run = ?"

# -- marks: the folder of the blobs, the prefix of the leases ----------------------------------------------------------

MARK = "SELECT value FROM meta WHERE name = ?"
# set mark: unless there is one. Locks meta.
SET_MARK = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"

# -- references --------------------------------------------------------------------------------------------------------

REFERENCES_OF = "SELECT DISTINCT blob FROM run_blobs WHERE run = ?"
ROW_REFERENCES = """
SELECT DISTINCT blob FROM run_blobs WHERE run = ?1 AND (source = 'row' AND number = ?2 OR source = 'run')
"""
# age: blobs that lose a reference, whose grace begins. Locks blobs. Forget: the references. Locks run_blobs.
AGE_OF_SOURCE = """
UPDATE blobs SET at = max(at, ?) WHERE name IN (
    SELECT blob FROM run_blobs WHERE run = ? AND source = ? AND number = ? AND name = ?)
"""
FORGET_SOURCE = "DELETE FROM run_blobs WHERE run = ? AND source = ? AND number = ? AND name = ?"
# of what goes with a compaction of the run ?1 to the row ?2: rows, messages without a body, and values in whose place
# another is shown that refers to nothing. ?3 is now.
AGE_OF_COMPACTED = """
UPDATE blobs SET at = max(at, ?3) WHERE name IN (
    SELECT blob FROM run_blobs WHERE run = ?1 AND (source = 'row' AND number <= ?2
        OR source = 'message' AND number IN (SELECT no FROM inbox WHERE run = ?1 AND body = x'')
        OR source = 'value' AND name IN (SELECT name FROM exposed WHERE run = ?1 AND NOT refers)))
"""
FORGET_COMPACTED = """
DELETE FROM run_blobs WHERE run = ?1 AND (source = 'row' AND number <= ?2
    OR source = 'message' AND number IN (SELECT no FROM inbox WHERE run = ?1 AND body = x'')
    OR source = 'value' AND name IN (SELECT name FROM exposed WHERE run = ?1 AND NOT refers))
"""
HELD_BY_BLOB = "SELECT blob FROM blob_blobs WHERE holder = ?"

# loose: blobs that nothing refers to. Reads every row of blobs, but not their bytes.
LOOSE = """
SELECT name, size FROM blobs WHERE at < ?
    AND NOT EXISTS (SELECT 1 FROM run_blobs WHERE run_blobs.blob = blobs.name)
    AND NOT EXISTS (SELECT 1 FROM blob_blobs WHERE blob_blobs.blob = blobs.name)
LIMIT ?
"""
# held only by: ?1 is a list of roots. Reads the references of their runs, and the other references of those blobs.
HELD_ONLY_BY = """
WITH going AS MATERIALIZED (
    SELECT no FROM tree_runs WHERE root IN (SELECT value FROM json_each(?1)))
SELECT count(*), coalesce(sum(size), 0) FROM blobs
WHERE name IN (SELECT blob FROM run_blobs WHERE run IN going)
    AND NOT EXISTS (SELECT 1 FROM run_blobs WHERE run_blobs.blob = blobs.name AND run NOT IN going)
    AND NOT EXISTS (SELECT 1 FROM blob_blobs WHERE blob_blobs.blob = blobs.name)
"""
DROP_BLOB = "DELETE FROM blobs WHERE name = ?"
AGE_HELD_BY_BLOB = """
UPDATE blobs SET at = max(at, ?) WHERE name IN (SELECT blob FROM blob_blobs WHERE holder = ?)
"""
FORGET_HELD_BY_BLOB = "DELETE FROM blob_blobs WHERE holder = ?"
KIND = "SELECT kind FROM blobs WHERE name = ?"

# -- retention ---------------------------------------------------------------------------------------------------------

# ended roots: oldest first, after a place; ?3 is now, ?4 the default (null: forever).
ENDED_ROOTS = """
SELECT id, created_at, no FROM runs INDEXED BY runs_by_time
WHERE (created_at, no) > (?1, ?2) AND created_at <= ?3 AND root = '' AND ended_at + coalesce(keep, ?4) <= ?3
ORDER BY created_at, no LIMIT ?5
"""
ROOT = "SELECT no, ended_at, keep FROM runs WHERE id = ? AND root = ''"
DESCENDANTS = "SELECT count(*), count(ended_at), max(ended_at) FROM runs WHERE root = ? AND root <> ''"

# keep the place: the newest row of the journal stays, or its seq would be used again; if it is a row of the tree ?, its
# place is all that stays, as a row of no run. Locks events.
KEEP_PLACE = """
UPDATE events SET run = 0, ordinal = seq, epoch = 0, at = 0, format = 0, checksum = x'', body = x''
WHERE seq = (SELECT max(seq) FROM events) AND run IN (SELECT no FROM tree_runs WHERE root = ?)
"""
# drop places: those that are no longer the newest. Locks events.
DROP_PLACES = "DELETE FROM events WHERE run = 0 AND seq < (SELECT max(seq) FROM events)"

# of a tree: each changes the rows of the root ?1 and of all its descendants in one table. Runs go last.
AGE_OF_TREE = """
UPDATE blobs SET at = max(at, ?2)
WHERE name IN (SELECT blob FROM run_blobs WHERE run IN (SELECT no FROM tree_runs WHERE root = ?1))
"""
EVENTS_OF_TREE = "DELETE FROM events WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)"
REST_OF_TREE = (
    "DELETE FROM run_blobs WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM inbox WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM watchers WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM adoptions WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM exposed WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM answers WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM attributes WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM snapshots WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM streams WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM stream_spans WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
    "DELETE FROM uniques WHERE run IN (SELECT no FROM tree_runs WHERE root = ?)",
)
RUNS_OF_TREE = "DELETE FROM runs WHERE no IN (SELECT no FROM tree_runs WHERE root = ?)"

# -- duties ------------------------------------------------------------------------------------------------------------

# take duty: free, ours, run out, or of an earlier boot. Locks duties.
TAKE_DUTY = """
INSERT INTO duties (duty, holder, boot, expires) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, boot = excluded.boot, expires = excluded.expires
WHERE duties.holder = excluded.holder OR duties.boot <> excluded.boot OR duties.expires <= ?5
RETURNING duty
"""
DROP_DUTY = "DELETE FROM duties WHERE duty = ? AND holder = ?"

# -- the report of space: reads everything -----------------------------------------------------------------------------

TABLES = """
SELECT 'runs', count(*), coalesce(sum(length(doing)), 0) FROM runs
UNION ALL SELECT 'events', count(*), coalesce(sum(length(body)), 0) FROM events WHERE run <> 0
UNION ALL SELECT 'inbox', count(*), coalesce(sum(length(body)), 0) FROM inbox
UNION ALL SELECT 'exposed', count(*), coalesce(sum(length(value)), 0) FROM exposed
UNION ALL SELECT 'streams', count(*), coalesce(sum(length(parts)), 0) FROM streams
UNION ALL SELECT 'answers', count(*), coalesce(sum(length(value)), 0) FROM answers
UNION ALL SELECT 'snapshots', count(*), coalesce(sum(length(body)), 0) FROM snapshots
UNION ALL SELECT 'blobs', count(*), coalesce(sum(size), 0) FROM blobs
"""
KINDS = "SELECT kind, count(*), sum(size) FROM blobs GROUP BY kind ORDER BY kind"
LARGEST = """
SELECT runs.id, runs.workflow, runs.status, big.rows, big.bytes FROM (
    SELECT run, count(*) AS rows, sum(length(body)) AS bytes FROM events GROUP BY run ORDER BY bytes DESC LIMIT ?
) AS big
JOIN runs ON runs.no = big.run ORDER BY big.bytes DESC
"""
