"""The statements, each with a name. `{s}` is the quoted schema; values are bound in binary.

What writes is a function of the schema (`schema/*.sql`), where its locks are explained: one call is one transaction and
one round trip. Two writing statements are complete here: the most common turn and the most common new run, each alone,
which a function would make half as fast. All other complete statements only read, and lock nothing.
"""

from __future__ import annotations

from holdfast.adapters.postgres.binary import Statement

# -- writes ------------------------------------------------------------------------------------------------------------

NOTHING = "SELECT"
LOCK_TIMEOUT = "SET lock_timeout = '3s'"  # in our own session; as the functions have it
# is locked: whether the row of a run that is there is locked. Locks it, if not, for this moment, and never waits.
IS_LOCKED = """
SELECT EXISTS (SELECT FROM {s}.runs WHERE no = %b::bigint)
    AND NOT EXISTS (SELECT FROM {s}.runs WHERE no = %b::bigint FOR NO KEY UPDATE SKIP LOCKED)
"""
# commit plain: a turn that brings nothing, of a run that keeps its lease, or ends and was not adopted: what `_turn`
# comes to then, by the same flags. No row: it was not as expected, and `commit_one` says why. All that is judged is in
# the run's own row, so a turn that waited for the lock judges what it finds then. Locks that row alone.
COMMIT_PLAIN = """
/* commit_plain */ WITH moved AS (
    UPDATE {s}.runs SET next_ordinal = next_ordinal + 1, workflow = $8::text, version = $9::text, status = $10::text,
        doing = $11::bytea, started_at = $12::bigint, updated_at = $13::bigint, ended_at = $14::bigint,
        claims = CASE WHEN $16::integer & 4 > 0 THEN 0 ELSE claims END,
        deaths = CASE WHEN $16 & 4 > 0 THEN 0 ELSE deaths END,
        instance = CASE WHEN $16 & 8 > 0 THEN '' ELSE instance END,
        available_at = CASE WHEN $16 & 8 > 0 THEN $18::bigint ELSE available_at END,
        ready = CASE
            WHEN $16 & 16 = 0 THEN NULL
            WHEN ready IS NULL AND instance = '' AND available_at IS NOT NULL THEN 0
            ELSE ready END
    WHERE no = $1::bigint AND epoch = $2::bigint AND next_ordinal = $3::bigint AND ended_at IS NULL
        AND coalesce((SELECT checksum FROM {s}.events WHERE run = $1 AND ordinal = $3 - 1), '') = $17::bytea
        AND ($16 & 2 = 0 OR (inbox_last <= $15::bigint AND NOT is_adopted))
    RETURNING no, inbox_last),
unwatched AS (DELETE FROM {s}.watchers USING moved WHERE $16 & 2 > 0 AND run = moved.no)
INSERT INTO {s}.events (seq, run, ordinal, epoch, at, format, checksum, body)
SELECT ((SELECT value FROM {s}.meta WHERE name = 'first_seq') + pg_current_xact_id()::text::bigint << 20) + 1,
    no, $3, $2, $4::bigint, $5::integer, $6::bytea, $7::bytea FROM moved
RETURNING seq, (SELECT inbox_last FROM moved)
"""
COMMIT_ONE = """
SELECT code, first, second, hints FROM {s}.commit_one(
    %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::integer, %b::bytea, %b::bytea, %b::text, %b::text,
    %b::text, %b::bytea, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::integer, %b::bytea, %b::bigint,
    %b::text::jsonb, %b::text::jsonb)
"""
COMMIT_MANY = """
SELECT codes, firsts, seconds, hints FROM {s}.commit_many(
    %b::bigint, %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::integer[], %b::bytea[], %b::bytea[],
    %b::text[], %b::text[], %b::text[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
    %b::integer[], %b::bytea[], %b::bigint[], %b::text::jsonb, %b::text::jsonb)
"""
COMMIT_WITHIN = """
SELECT code, first, second, hints FROM {s}.commit_within(
    %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::integer, %b::bytea, %b::bytea, %b::text, %b::text,
    %b::text, %b::bytea, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::integer, %b::bytea, %b::bigint,
    %b::text::jsonb, %b::text::jsonb)
"""
OUTCOME_OF = "SELECT code, first, second FROM {s}.outcome_of(%b::bigint, %b::bigint, %b::bigint, %b::bytea)"
CREATE = """
SELECT code, is_ours, first_seq, first_inbox, hints, (run).*
FROM {s}.create_runs(%b::bigint, %b::text::jsonb, %b::boolean, %b::text::jsonb)
"""
# create plain: a run without key, blobs, attributes or anything else that others know of, due at once; begun with its
# first turn if there is one. No row: the id is in use, or it is not due yet, or waits at the gate of its queue. Locks
# no row that exists.
CREATE_PLAIN = """
/* create_plain */ WITH made AS (
    INSERT INTO {s}.runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready,
        queue, priority, worker, key, input_hash, parent, parent_key, root, code, codec, deadline, created_at,
        started_at, updated_at, keep, doing)
    SELECT $1::text, $2::bigint, $3::bigint, $4::text, $5::text, $6::text, $7::bigint, $8::text,
        coalesce($9::bigint, moment), $10::integer, $11::text, $12::bigint, $13::text, '', $14::text, '', '', '',
        $15::text, $16::text, $17::bigint, $18::bigint, $19::bigint, $20::bigint, $21::bigint, $22::bytea
    FROM (SELECT coalesce($23::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS moment) AS now
    WHERE coalesce($9 <= moment, true) AND NOT EXISTS (SELECT 1 FROM {s}.queues WHERE name = $11 AND is_gated)
    ON CONFLICT (id) DO NOTHING RETURNING *),
written AS (
    INSERT INTO {s}.events (seq, run, ordinal, epoch, at, format, checksum, body)
    SELECT ((SELECT value FROM {s}.meta WHERE name = 'first_seq') + pg_current_xact_id()::text::bigint << 20) + ordinal,
        made.no, ordinal, ordinal - 1, at, format, checksum, body
    FROM made, (VALUES
        (1::bigint, $24::bigint, $25::integer, $26::bytea, $27::bytea),
        (2::bigint, $28::bigint, $29::integer, $30::bytea, $31::bytea)) AS turn(ordinal, at, format, checksum, body)
    WHERE turn.checksum IS NOT NULL
    RETURNING ordinal, seq)
SELECT (SELECT seq FROM written WHERE ordinal = 2), no, id, workflow, version, code, codec, status, doing, queue,
    priority, key, input_hash, parent, parent_key, root, deadline, '{}', created_at, started_at, updated_at, ended_at,
    next_ordinal, available_at, worker, instance, epoch, claims, inbox_last, inbox_read, bounces, note, 0, 0, 0
FROM made
"""
SEND = "SELECT {s}.send_messages(%b::bigint, %b::text::jsonb)"
PUBLISH = "SELECT reached, woken FROM {s}.publish(%b::bigint, %b::text::jsonb)"
REGISTER = """
SELECT freed, recalled FROM {s}.register(
    %b::bigint, %b::text, %b::bigint, %b::text::jsonb, %b::bigint, %b::text[], %b::bigint)
"""
BEAT = """
SELECT moment, has_lapsed, orphaned, next_expiry, quiet_until, hints FROM {s}.beat(
    %b::bigint, %b::text, %b::bigint, %b::text, %b::bigint, %b::text, %b::text, %b::integer, %b::boolean)
"""
CLAIM = """
SELECT next_due, delayed, is_held_back, share, (run).* FROM {s}.claim(
    %b::bigint, %b::text, %b::bigint, %b::text, %b::text, %b::text[], %b::text[], %b::text[], %b::integer, %b::text[],
    %b::integer, %b::integer, %b::boolean, %b::text[], %b::integer[])
"""
TAKE = """
SELECT code, expires_at, (run).* FROM {s}.take(
    %b::bigint, %b::text, %b::bigint, %b::text, %b::text, %b::boolean, %b::boolean)
"""
REINSTATE = "SELECT {s}.reinstate(%b::text, %b::text, %b::bigint)"
RELEASE = "SELECT {s}.release(%b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::text)"
RELEASE_ALL = "SELECT {s}.release_all(%b::bigint, %b::text)"

# -- of a transaction that others share. Under the savepoint one question may fail without the rest ---------------

BEGIN = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL holdfast.is_lent = 'yes';
SET LOCAL tcp_keepalives_idle = 3; SET LOCAL tcp_keepalives_interval = 1; SET LOCAL tcp_keepalives_count = 3
"""
SAVEPOINT = "SAVEPOINT holdfast"
KEEP = "RELEASE SAVEPOINT holdfast"
UNDO = "ROLLBACK TO SAVEPOINT holdfast"
# commit: refused if the borrower has ended the transaction that was lent, and this is another.
COMMIT = "SELECT {s}.check_lent(); COMMIT"
ROLLBACK = "ROLLBACK"
DISCARD = "DISCARD ALL"

# -- reads -------------------------------------------------------------------------------------------------------------

RUNS_BY_ID = "SELECT * FROM {s}.run_rows WHERE id = ANY (%b::text[])"
COUNT_BY_STATUS = "SELECT status, count(*) FROM {s}.runs GROUP BY status"
LAST_TURN = """
SELECT ordinal, events.epoch, at, format, checksum, body, seq, runs.workflow, runs.status
FROM {s}.runs JOIN {s}.events ON events.run = runs.no WHERE runs.id = %b::text ORDER BY ordinal DESC LIMIT 1
"""
READ_FROM = """
SELECT run, id, ordinal, events.epoch, at, format, checksum, body, seq
FROM unnest(%b::bigint[], %b::bigint[]) AS wanted(no, first) JOIN {s}.runs ON runs.no = wanted.no
JOIN {s}.events ON events.run = wanted.no AND ordinal >= wanted.first
ORDER BY run, ordinal
"""
# read after: seq rises with the ordinal within a run, since each turn is written under the lock of the run's row. So
# there is no later committer to wait for, and rows are complete up to the last one.
READ_TREE = "SELECT * FROM {s}.read_tree(%b::text, %b::bigint, %b::bigint)"
LAST_SEQ = """
SELECT max((SELECT seq FROM {s}.events WHERE run = tree.no ORDER BY ordinal DESC LIMIT 1))
FROM {s}.tree_runs AS tree WHERE root = %b::text
"""
# open trees: from the runs that have not ended to their roots, then the journals of the wanted ones alone.
OPEN_TREES = """
WITH open AS (
    SELECT coalesce(nullif(root, ''), id) AS root, count(*) AS runs FROM {s}.runs
    WHERE status IN ('pending', 'running', 'paused') GROUP BY 1 HAVING coalesce(nullif(root, ''), id) > %b::text
    ORDER BY 1 LIMIT %b::bigint)
SELECT open.root, max(seq), count(*), open.runs FROM open JOIN {s}.tree_runs AS tree ON tree.root = open.root
JOIN {s}.events ON events.run = tree.no GROUP BY open.root, open.runs ORDER BY open.root
"""
READ_AFTER = """
SELECT ordinal, events.epoch, at, format, checksum, body, seq FROM {s}.runs JOIN {s}.events ON events.run = runs.no
WHERE runs.id = %b::text AND ordinal > coalesce((
    SELECT ordinal FROM {s}.events WHERE run = runs.no AND seq <= %b::bigint ORDER BY ordinal DESC LIMIT 1), 0)
ORDER BY ordinal LIMIT %b::bigint
"""
EXPOSED = """
SELECT value, blob, checksum FROM {s}.runs JOIN {s}.exposed ON exposed.run = runs.no
WHERE id = %b::text AND name = %b::text
"""
EXPOSURES = """
SELECT name, value, blob, checksum FROM {s}.runs JOIN {s}.exposed ON exposed.run = runs.no
WHERE id = %b::text ORDER BY name
"""
# sent, published: what a run, or a run that waits on a topic, was sent under an id, as long as its body is kept. By the
# index of `inbox` by sender.
SENT = """
SELECT runs.id, inbox.id, kind, body, checksum FROM {s}.runs JOIN {s}.inbox ON inbox.run = runs.no
WHERE runs.id = %b::text AND inbox.id = %b::text
"""
PUBLISHED = """
SELECT runs.id, inbox.id, kind, body, checksum FROM {s}.watchers JOIN {s}.runs ON runs.no = watchers.run
JOIN {s}.inbox ON inbox.run = watchers.run AND inbox.id = %b::text || '/' || watchers.key
WHERE watchers.topic = %b::text AND body <> ''::bytea LIMIT 1
"""
WATCHERS = """
SELECT runs.id, watchers.key, watchers.since FROM {s}.watchers JOIN {s}.runs ON runs.no = watchers.run
WHERE watchers.topic = %b::text ORDER BY watchers.no
"""
UNREAD = """
SELECT inbox.run, inbox.no, inbox.id, kind, body, checksum
FROM unnest(%b::bigint[], %b::bigint[]) AS wanted(run, seen)
JOIN {s}.inbox ON inbox.run = wanted.run AND inbox.no > wanted.seen AND consumed_ordinal IS NULL
ORDER BY inbox.run, inbox.no
"""
# acquit: the run is no longer a suspect. Locks its row. Fenced by epoch.
ACQUIT = """
UPDATE {s}.runs SET deaths = 0 WHERE no = %b::bigint AND epoch = %b::bigint AND instance <> '' RETURNING id
"""
HELD = "SELECT id, epoch, inbox_last FROM {s}.runs WHERE instance = %b::text AND instance <> ''"
SIBLINGS = "SELECT instance, pid, host, boot, mark FROM {s}.workers WHERE worker = %b::text AND instance <> %b::text"
WORKERS = "SELECT * FROM {s}.known_workers(%b::bigint)"
LEASE = "SELECT * FROM {s}.lease_of(%b::bigint, %b::text, %b::bigint, %b::text)"
TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

# identity: which database of which cluster of servers this is, and what a transaction in it can do. Locks nothing.
IDENTITY = """
SELECT (SELECT system_identifier FROM pg_control_system()), oid::bigint, datname,
    current_setting('transaction_isolation'), current_setting('transaction_read_only')
FROM pg_database WHERE datname = current_database()
"""

# -- list: a head, any of the conditions (most are in `adapters.sql.listing`), a tail ----------------------------------

LIST_RUNS = "SELECT * FROM {s}.run_rows WHERE true"
WITH_STATUSES = "AND status = ANY (?::text[])"
WITH_IDS = "AND id = ANY (?::text[])"
WITH_PARENTS = "AND parent = ANY (?::text[]) AND parent <> ''"
WITH_PREFIX = "AND no IN (SELECT no FROM {s}.runs WHERE id >= ? AND id < ?)"
WITH_SUSPICION = "AND no IN (SELECT no FROM {s}.runs WHERE deaths > 0 AND claims > 0)"
WITH_ROOT = """
AND no IN (SELECT no FROM {s}.runs WHERE id = ? AND root = '' UNION ALL
    SELECT no FROM {s}.runs WHERE root = ? AND root <> '')
"""
WITH_ATTRIBUTE = "AND no IN (SELECT run FROM {s}.attributes WHERE name = ? AND value = ?)"

# -- condition ---------------------------------------------------------------------------------------------------------

SERVER = "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
# waiting: sessions of this database that have waited for a lock for a second, and the first session that blocks one of
# them, which does not wait itself. Locks nothing.
WAITING = """
SELECT count(*), max(extract(epoch FROM clock_timestamp() - waiting.query_start))::float8, (array_agg(blocker.pid))[1],
    (array_agg(blocker.application_name || ', ' || coalesce(blocker.state, '')))[1]
FROM pg_stat_activity AS waiting LEFT JOIN LATERAL (
    SELECT other.* FROM pg_stat_activity AS other
    WHERE other.pid = ANY(pg_blocking_pids(waiting.pid)) AND other.wait_event_type IS DISTINCT FROM 'Lock' LIMIT 1
) AS blocker ON true
WHERE waiting.datname = current_database() AND waiting.wait_event_type = 'Lock'
    AND waiting.query_start < clock_timestamp() - interval '1 second'
"""
# open runs: with any status that is not an end, even an unknown one. Reads the rows of all runs, a piece at a time.
OPEN_RUNS = """
SELECT * FROM {s}.run_rows WHERE no > %b::bigint AND status NOT IN ('completed', 'failed', 'cancelled')
ORDER BY no LIMIT %b::bigint
"""
# backlog: who waits for a worker now, by definition and queue. Reads every unheld run that may be claimed, from the
# partial indexes and the rows behind them; locks nothing.
BACKLOG = """
SELECT workflow, version, queue, count(*), (array_agg(id ORDER BY since, no))[1], min(since) FROM (
    SELECT *, CASE WHEN bounces > 0 THEN updated_at ELSE available_at END AS since FROM {s}.runs
    WHERE (ready = 1 OR ready = 0 OR ready = 2) AND (available_at <= %b::bigint OR bounces > 0)) AS waiting
GROUP BY workflow, version, queue ORDER BY min(since)
"""


# What is asked for all the time. Most are calls of functions and reads by key, for which one plan fits all values.
OFTEN = {
    COMMIT_PLAIN: "commit_plain",
    COMMIT_ONE: "commit_one",
    COMMIT_MANY: "commit_many",
    CREATE_PLAIN: "create_plain",
    CREATE: "create_runs",
    SEND: "send_messages",
    BEAT: "beat",
    CLAIM: "claim",
    RELEASE: "release",
    RUNS_BY_ID: "runs_by_id",
    READ_FROM: "read_from",
    READ_AFTER: "read_after",
    UNREAD: "unread",
    HELD: "held",
}


class Texts(dict[str, bytes]):
    """Statements with the schema filled in, each built once."""

    def __init__(self, quoted: str) -> None:
        super().__init__()
        self._quoted = quoted
        self._often: dict[str, Statement] = {}

    def __missing__(self, statement: str) -> bytes:
        text = self[statement] = statement.replace("{s}", self._quoted).encode()
        return text

    def often(self, statement: str) -> Statement | None:
        """One of `OFTEN`, ready to be sent."""
        known = self._often.get(statement)
        if known is None and (verb := OFTEN.get(statement)) is not None:
            known = self._often[statement] = Statement(verb, statement, self._quoted.replace("%%", "%"))
        return known
