"""All SQL of the store, each statement with a name. There is one writer at a time: "locks" below says which tables a
statement changes.

Values are always bound. Only lists are built at run time, from the fragments at the end.
"""

from __future__ import annotations

# -- connections -------------------------------------------------------------------------------------------------------

JOURNAL_WAL = "PRAGMA journal_mode = WAL"
SYNC_FULL = "PRAGMA synchronous = FULL"  # fsync at every commit: an acknowledged write survives a power cut
FULL_FSYNC = "PRAGMA fullfsync = ON"  # macOS keeps what fsync wrote in the drive's cache; elsewhere it says nothing
SYNC_NORMAL = "PRAGMA synchronous = NORMAL"  # a power cut may take the last commits, never their order
SYNC_OFF = "PRAGMA synchronous = OFF"  # for a store that ends with its process
FOREIGN_KEYS = "PRAGMA foreign_keys = ON"
NO_TRUSTED_SCHEMA = "PRAGMA trusted_schema = OFF"  # a file from elsewhere may bring views and triggers of its own
NO_MMAP = "PRAGMA mmap_size = 0"  # an I/O error on a mapped page is a SIGBUS, not an error code
NO_AUTOMATIC_CHECKPOINT = "PRAGMA wal_autocheckpoint = 0"  # the writer thread does it, never a caller's event loop
DATA_VERSION = "PRAGMA data_version"
BEGIN = "BEGIN IMMEDIATE"  # never deferred: a read that turns into a write could be refused half-way
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
HAS_TABLES = "SELECT 1 FROM sqlite_schema LIMIT 1"

# -- commit: turns of runs ---------------------------------------------------------------------------------------------

# The updates of a run's row are in `turn_statements`.

FENCE = "SELECT epoch, next_ordinal, inbox_last FROM runs WHERE no = ?"
# refusal: why a turn found no row to move: what it is fenced by, and what it may not have read.
REFUSAL = """
SELECT epoch, next_ordinal, inbox_last, ended_at,
    coalesce((SELECT checksum FROM events WHERE run = runs.no AND ordinal = next_ordinal - 1), x'')
FROM runs WHERE no = ?
"""
STORED_TURN = "SELECT seq, epoch, checksum FROM events WHERE run = ? AND ordinal = ?"

# append: the turn's row, or that of a new run. Locks events; the fenced update or the run came first.
APPEND = "INSERT INTO events (run, ordinal, epoch, at, format, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
# append two: the first rows of a run that is begun with its start. Locks events.
APPEND_TWO = """
INSERT INTO events (run, ordinal, epoch, at, format, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?)
"""

CONSUME = "UPDATE inbox SET consumed_ordinal = ? WHERE run = ? AND no <= ? AND consumed_ordinal IS NULL"
EXPOSE = """
INSERT INTO exposed (run, name, value, blob, checksum, refers) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, name) DO UPDATE SET value = excluded.value, blob = excluded.blob, checksum = excluded.checksum,
    refers = excluded.refers
"""
WATCH = "INSERT INTO watchers (topic, run, key, since) VALUES (?, ?, ?, ?)"
UNWATCH = "DELETE FROM watchers WHERE run = ? AND key = ?"
UNWATCH_ALL = "DELETE FROM watchers WHERE run = ?"
# keep blob: stored again it is as if it were new, so that its grace starts again. Locks blobs.
KEEP_BLOB = """
INSERT INTO blobs (name, kind, at, size, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET at = max(at, excluded.at)
"""
# refer: only to blobs that are there: a `BlobRef` may be older than its blob's removal. Locks run_blobs, blob_blobs.
REFER = """
INSERT INTO run_blobs (run, source, number, name, blob) SELECT ?, ?, ?, ?, blobs.name FROM blobs WHERE blobs.name = ?
ON CONFLICT DO NOTHING
"""
IS_STORED = "SELECT 1 FROM blobs WHERE name = ?"
REFER_BLOB = "INSERT INTO blob_blobs (holder, blob) SELECT ?, name FROM blobs WHERE name = ? ON CONFLICT DO NOTHING"

# -- runs --------------------------------------------------------------------------------------------------------------

# insert run: nothing if the id is in use, or if it is claimed (?28) and would wait at the gate of its queue. Locks
# runs. A run begun with its start is as its first turn leaves it. ?29: its share; ?30: it rides on its parent's place.
INSERT_RUN = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, started_at, inbox_last, inbox_read, claims,
    instance, available_at, ready, queue, priority, worker, bounces, note, key, input_hash, parent, parent_key, root,
    code, codec, deadline, created_at, updated_at, keep, doing, gated, share)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12 + (?12 AND gated), ?13, ?14, ?15, 0, '', ?16, ?17, ?18, ?19,
    ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, gated, iif(gated AND ?29 = '', ?5, ?29)
FROM (SELECT NOT ?30 AND (?29 <> '' OR EXISTS (SELECT 1 FROM queues WHERE name = ?13 AND is_gated)) AS gated)
WHERE NOT (?28 AND gated)
ON CONFLICT (id) DO NOTHING
"""
INSERT_ATTRIBUTE = "INSERT INTO attributes (run, name, value) VALUES (?, ?, ?)"
# set and drop: with the turn of the run, whose row is locked. Lock attributes.
SET_ATTRIBUTE = INSERT_ATTRIBUTE + " ON CONFLICT (run, name) DO UPDATE SET value = excluded.value"
DROP_ATTRIBUTE = "DELETE FROM attributes WHERE run = ? AND name = ?"

RUN_ROWS = "SELECT * FROM run_rows"
RUN_BY_ID = "SELECT * FROM run_rows WHERE id = ?"
RUN_BY_NO = "SELECT * FROM run_rows WHERE no = ?"
RUN_BY_KEY = """
SELECT * FROM run_rows WHERE workflow = ? AND key = ? AND key <> '' AND created_at > ?
ORDER BY created_at LIMIT 1
"""
NO_OF_RUN = "SELECT no FROM runs WHERE id = ?"
ID_OF_RUN = "SELECT id FROM runs WHERE no = ?"
COUNT_BY_STATUS = "SELECT status, count(*) FROM runs GROUP BY status"
EXPOSED = """
SELECT exposed.value, exposed.blob, exposed.checksum FROM runs JOIN exposed ON exposed.run = runs.no
WHERE runs.id = ? AND exposed.name = ?
"""
EXPOSURES = """
SELECT exposed.name, exposed.value, exposed.blob, exposed.checksum FROM runs JOIN exposed ON exposed.run = runs.no
WHERE runs.id = ? ORDER BY exposed.name
"""

# -- adoption: telling others of a run's end ---------------------------------------------------------------------------

ADOPT = "INSERT INTO adoptions (run, watcher, key, message) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
ADOPTIONS = "SELECT watcher, key, message FROM adoptions WHERE run = ?"
FORGET_ADOPTIONS = "DELETE FROM adoptions WHERE run = ?"
LAST_TURN = """
SELECT ordinal, epoch, at, format, checksum, body, seq FROM events WHERE run = ? ORDER BY ordinal DESC LIMIT 1
"""

# -- journal -----------------------------------------------------------------------------------------------------------

READ_FROM = """
SELECT ordinal, epoch, at, format, checksum, body, seq FROM events WHERE run = ? AND ordinal >= ? ORDER BY ordinal
"""
# read after: seq rises with the ordinal, so a place in the store is a place in the run. A cursor is mostly a row of
# this run; if it is not, the newest rows are passed over backwards, as many as are new.
READ_AFTER = """
SELECT ordinal, epoch, at, format, checksum, body, seq FROM events
WHERE run = ?1 AND ordinal > coalesce(
    (SELECT ordinal FROM events WHERE seq = ?2 AND run = ?1),
    (SELECT ordinal FROM events WHERE run = ?1 AND seq <= ?2 ORDER BY ordinal DESC LIMIT 1),
    0)
ORDER BY ordinal LIMIT ?3
"""

# trees: a run that is its own root has an empty `root`.
TREE_BY_RUN = """
SELECT tree.id, ordinal, epoch, at, format, checksum, body, seq FROM (
    SELECT no, id FROM runs WHERE id = ?1 AND root = ''
    UNION ALL SELECT no, id FROM runs WHERE root = ?2 AND root <> '') AS tree
CROSS JOIN events ON events.run = tree.no AND events.seq >= ?3
ORDER BY seq LIMIT ?4
"""
TREE_BY_SEQ = """
SELECT runs.id, ordinal, events.epoch, at, format, checksum, body, seq
FROM events CROSS JOIN runs ON runs.no = events.run
WHERE seq >= ?3 AND ((runs.id = ?1 AND runs.root = '') OR (runs.root = ?2 AND runs.root <> ''))
ORDER BY seq LIMIT ?4
"""
NEWEST_SEQ = "SELECT max(seq) FROM events"
LAST_SEQ = """
SELECT max((SELECT seq FROM events WHERE run = tree.no ORDER BY ordinal DESC LIMIT 1)) FROM (
    SELECT no FROM runs WHERE id = ?1 AND root = ''
    UNION ALL SELECT no FROM runs WHERE root = ?2 AND root <> '') AS tree
"""
# open trees: from the runs that have not ended to their roots, then the journals of the wanted ones alone.
OPEN_TREES = """
WITH open AS (
    SELECT iif(root = '', id, root) AS root, count(*) AS runs FROM runs
    WHERE status IN ('pending', 'running', 'paused') GROUP BY 1 HAVING iif(root = '', id, root) > ?1
    ORDER BY 1 LIMIT ?2)
SELECT open.root, max(seq), count(*), open.runs FROM open
JOIN runs ON (runs.id = open.root AND runs.root = '') OR (runs.root = open.root AND runs.root <> '')
JOIN events ON events.run = runs.no
GROUP BY open.root ORDER BY open.root
"""

# -- inbox -------------------------------------------------------------------------------------------------------------

TARGET = "SELECT no, status, inbox_last FROM runs WHERE id = ?"
HAS_MESSAGE = "SELECT 1 FROM inbox WHERE run = ? AND id = ?"

# deliver and wake: one transaction. Locks inbox and runs. The run becomes claimable now unless a worker holds it (and
# learns of the message from its next commit) or it is paused. At the gate of a queue it stays, unless called out (?4).
DELIVER = "INSERT INTO inbox (run, no, id, kind, body, at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)"
WAKE = """
UPDATE runs SET inbox_last = ?1, available_at = min(coalesce(available_at, ?2), ?2),
    ready = CASE
        WHEN instance <> '' OR status NOT IN ('pending', 'running') THEN ready
        WHEN gated = 1 AND NOT ?4 AND ready IS NOT 1 THEN 2
        ELSE 1 END
WHERE no = ?3
"""
NUMBER = "UPDATE runs SET inbox_last = ? WHERE no = ?"  # of a message to a run that has ended: it is not woken
# put in place: whatever is stored under the number goes, and the message is stored there. Lock inbox.
PLACE = """
SELECT inbox_read, next_ordinal - 1,
    EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND inbox.no = ?2 AND consumed_ordinal IS NOT NULL)
FROM runs WHERE no = ?1
"""
CLEAR_PLACE = "DELETE FROM inbox WHERE run = ? AND no = ?"
PUT_IN_PLACE = """
INSERT INTO inbox (run, no, id, kind, body, at, checksum, consumed_ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
WATCHERS = """
SELECT runs.id, watchers.key, watchers.since FROM watchers JOIN runs ON runs.no = watchers.run
WHERE watchers.topic = ? ORDER BY watchers.rowid
"""
UNREAD = """
SELECT no, id, kind, body, checksum FROM inbox WHERE run = ? AND no > ? AND consumed_ordinal IS NULL ORDER BY no
"""

# -- leases ------------------------------------------------------------------------------------------------------------

# What is claimable in a queue is met definition by definition, each in a seek or two, so a claim costs the same among
# a million rows and behind any backlog of workflows that this worker does not hold. (Comparing (workflow, version) as a
# pair would be one statement, but SQLite then reads every row of the definition it starts from.)
IS_READY = "SELECT 1 FROM runs INDEXED BY runs_ready WHERE ready = 1 AND queue = ? LIMIT 1"
FIRST_READY = """
SELECT workflow, version FROM runs INDEXED BY runs_ready WHERE ready = 1 AND queue = ?
ORDER BY workflow, version LIMIT 1
"""
NEXT_VERSION_READY = """
SELECT workflow, version FROM runs INDEXED BY runs_ready WHERE ready = 1 AND queue = ? AND workflow = ? AND version > ?
ORDER BY version LIMIT 1
"""
NEXT_WORKFLOW_READY = """
SELECT workflow, version FROM runs INDEXED BY runs_ready WHERE ready = 1 AND queue = ? AND workflow > ?
ORDER BY workflow, version LIMIT 1
"""
READY = """
SELECT priority, available_at, no FROM runs INDEXED BY runs_ready
WHERE ready = 1 AND queue = ? AND workflow = ? AND version = ? AND available_at <= ?
    AND no NOT IN (SELECT no FROM runs INDEXED BY runs_suspect WHERE deaths > 0 AND instance = '')
ORDER BY priority DESC, available_at, no LIMIT ?
"""
CLAIMABLE = """
SELECT priority, available_at, no, workflow, version, queue, deaths > 0, iif(gated = 1 AND ready IS NOT 1, share, NULL)
FROM runs
WHERE id = ? AND instance = '' AND status NOT IN ('paused', 'completed', 'failed', 'cancelled') AND available_at <= ?
"""
# next due: and whether runs wait at the gate of the queue.
NEXT_DUE = """
SELECT min(available_at), EXISTS (SELECT 1 FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ?1)
FROM runs INDEXED BY runs_due WHERE ready = 0 AND queue = ?1
"""

# promote: moves what has come due from one partial index to the other, a bounded number at a time. Locks runs.
PROMOTE = """
UPDATE runs SET ready = 1 + (gated = 1) WHERE no IN (
    SELECT no FROM runs INDEXED BY runs_due WHERE ready = 0 AND queue = ? AND available_at <= ?
    ORDER BY available_at LIMIT ?)
"""

# claim: raises the epoch, so the previous holder's commits are fenced from here on. Locks runs.
CLAIM = """
UPDATE runs SET epoch = epoch + 1, claims = claims + 1, instance = ?, worker = ?, ready = NULL, bounces = 0, note = '',
    gated = iif(gated = 1, 2, gated)
WHERE no = ?
"""
# bounce: no worker holds the definition; later, with a note. Locks runs.
BOUNCE = "UPDATE runs SET available_at = ?, ready = 0, bounces = bounces + 1, note = ? WHERE no = ?"
BOUNCES = "SELECT id, bounces FROM runs WHERE no = ?"

# take: an operator's claim, not counted. Locks runs. An end that is not an instant is cleared, so that the run can end.
TAKE = """
UPDATE runs SET epoch = epoch + 1, instance = ?, worker = ?, ready = NULL, gated = iif(gated = 1, 2, gated),
    ended_at = CASE WHEN ended_at BETWEEN -62135596800000000 AND 253402300799999999 THEN ended_at END
WHERE no = ?
"""

# recall: runs that waited for this definition are available again. Locks runs. Claims take bounces back
# to 0, so none of these is held.
RECALL = """
UPDATE runs SET available_at = ?1, ready = 1 + (gated = 1), bounces = 0, note = ''
WHERE bounces > 0 AND workflow = ?2 AND version = ?3 AND status IN ('pending', 'running') AND instance = ''
RETURNING id
"""

# release: fenced by epoch. Locks runs. A worker that releases was not killed by the run, so the claim is not counted. A
# run that has not begun waits at the gate of its queue again, if that has one.
RELEASE = """
UPDATE runs SET instance = '', claims = max(0, claims - 1), deaths = 0, note = ?1, bounces = bounces + (?1 <> ''),
    available_at = CASE WHEN inbox_last > ?2 THEN ?4 ELSE ?3 END,
    gated = iif(gated = 2 AND started_at IS NULL, 1, gated),
    ready = iif(gated > 0 AND started_at IS NULL, 2, 1) * CASE
        WHEN status = 'paused' THEN NULL
        WHEN inbox_last > ?2 THEN 1
        WHEN ?3 IS NULL THEN NULL
        ELSE ?3 <= ?4 END
WHERE no = ?5 AND epoch = ?6 AND status NOT IN ('completed', 'failed', 'cancelled')
RETURNING id
"""
RELEASE_ALL = """
UPDATE runs SET instance = '', claims = max(0, claims - 1), deaths = 0, available_at = ?1,
    gated = iif(gated = 2 AND started_at IS NULL, 1, gated),
    ready = iif(gated > 0 AND started_at IS NULL, 2, 1) * CASE WHEN status = 'paused' THEN NULL ELSE 1 END
WHERE instance = ?2 AND instance <> ''
RETURNING id
"""
# reinstate: freed from a holder that lives and may continue. Locks runs. Epoch as it was: no fence.
REINSTATE = """
UPDATE runs SET instance = ?1, ready = NULL
WHERE id = ?2 AND epoch = ?3 AND instance IN ('', ?1) AND status IN ('pending', 'running')
    AND EXISTS (SELECT 1 FROM workers WHERE instance = ?1 AND has_ended = 0)
RETURNING id
"""
LEASE_OF_RUN = """
SELECT boot, expires, has_ended, runs.worker, runs.instance, runs.epoch FROM runs
JOIN workers ON workers.instance = runs.instance WHERE runs.id = ? AND runs.instance <> ''
"""
HELD = "SELECT id, epoch, inbox_last FROM runs WHERE instance = ? AND instance <> ''"
HOLDS = "SELECT 1 FROM runs WHERE instance = ? AND instance <> '' LIMIT 1"
# holders: met one by one over their index, so ten thousand held runs cost as many steps as there are holders.
HOLDERS = """
WITH RECURSIVE holders (instance) AS (
    SELECT min(instance) FROM runs WHERE instance <> ''
    UNION ALL
    SELECT (SELECT min(instance) FROM runs WHERE instance <> '' AND instance > holders.instance) FROM holders
    WHERE instance IS NOT NULL)
SELECT instance FROM holders WHERE instance IS NOT NULL
"""

# -- workers -----------------------------------------------------------------------------------------------------------

REGISTER = """
INSERT INTO workers (instance, worker, queues, definitions, pid, host, mark, started_at, seen_at, boot, expires,
    has_ended, progress)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
ON CONFLICT (instance) DO UPDATE SET worker = excluded.worker, queues = excluded.queues,
    definitions = excluded.definitions, pid = excluded.pid, host = excluded.host, mark = excluded.mark,
    started_at = excluded.started_at, seen_at = excluded.seen_at, boot = excluded.boot, expires = excluded.expires,
    has_ended = 0, progress = excluded.progress
"""
SIBLINGS = "SELECT instance, pid, host, mark, boot FROM workers WHERE worker = ? AND instance <> ?"
LEASE = "SELECT boot, expires, has_ended, worker FROM workers WHERE instance = ?"
QUEUES = "SELECT queues FROM workers WHERE instance = ?"
LEASED_DEFINITIONS = "SELECT definitions FROM workers WHERE has_ended = 0 AND boot = ? AND expires > ?"
RENEW = """
UPDATE workers SET boot = ?, expires = ?, has_ended = 0, seen_at = ?, progress = ?, recovery = ? WHERE instance = ?
"""
END_WORKER = "UPDATE workers SET has_ended = 1, seen_at = ? WHERE instance = ?"
# forget: instances that were silent for long and hold nothing. Locks workers.
FORGET_WORKERS = """
DELETE FROM workers WHERE seen_at < ?1 AND (has_ended = 1 OR boot <> ?2 OR expires <= ?3)
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.instance = workers.instance AND runs.instance <> '')
"""
WORKERS = """
SELECT instance, worker, queues, definitions, pid, host, started_at, has_ended, boot, expires, progress, recovery,
    seen_at,
    (SELECT count(*) FROM runs WHERE runs.instance = workers.instance AND runs.instance <> '')
FROM workers ORDER BY started_at, instance
"""

# -- blobs -------------------------------------------------------------------------------------------------------------

BLOB = "SELECT data FROM blobs WHERE name = ?"

# -- list: a head, any of the conditions (most are in `adapters.sql.listing`), a tail ----------------------------------

LIST_RUNS = "SELECT * FROM run_rows WHERE true"
WITH_STATUSES = "AND status IN (SELECT value FROM json_each(?))"
WITH_IDS = "AND no IN (SELECT no FROM runs WHERE id IN (SELECT value FROM json_each(?)))"
WITH_PARENTS = "AND no IN (SELECT no FROM runs WHERE parent IN (SELECT value FROM json_each(?)) AND parent <> '')"
WITH_PREFIX = "AND no IN (SELECT no FROM runs WHERE id >= ? AND id < ?)"
WITH_ROOT = """
AND no IN (SELECT no FROM runs WHERE id = ? AND root = '' UNION ALL SELECT no FROM runs WHERE root = ? AND root <> '')
"""
WITH_ATTRIBUTE = "AND no IN (SELECT run FROM attributes WHERE name = ? AND value = ?)"
