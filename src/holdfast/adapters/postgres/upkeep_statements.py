"""The SQL of blobs, snapshots, compaction, retention and collection, named as in `statements`, and separate from what
runs need on their hot path. What writes is in `schema/0001_pre_upkeep.sql`."""

from __future__ import annotations

BLOBS = "SELECT name, data FROM {s}.blobs WHERE name = ANY (%b::bytea[])"
KIND = "SELECT kind FROM {s}.blobs WHERE name = %b"
KNOWN = "SELECT name FROM {s}.blobs WHERE name = ANY (%b::bytea[])"
KEEP_BLOB = "SELECT {s}.keep_blob(%b::bigint, %b::bytea, %b::text, %b::bigint, %b::bytea, %b::bytea[])"

HELD_BY_BLOBS = """
SELECT holder, array_agg(blob) FROM {s}.blob_blobs WHERE holder = ANY (%b::bytea[]) GROUP BY holder
"""

MARK = "SELECT value FROM {s}.meta WHERE name = %b::text"
# set mark: unless there is one. Locks its row, so that concurrent callers get the same one.
SET_MARK = """
INSERT INTO {s}.meta AS known (name, value) VALUES (%b::text, %b::bigint)
ON CONFLICT (name) DO UPDATE SET value = known.value RETURNING value
"""

SNAPSHOTS = "SELECT run, ordinal, checksum, body FROM {s}.snapshots WHERE run = ANY (%b::bigint[])"
PUT_SNAPSHOT = """
SELECT {s}.put_snapshot(
    %b::bigint, %b::bigint, %b::bigint, %b::bytea, %b::bytea, %b::text::jsonb, %b::text::jsonb)
"""
DROP_SNAPSHOTS = "SELECT {s}.drop_snapshots(%b::bigint, %b::bigint[])"
COMPACT = """
SELECT {s}.compact(
    %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bytea, %b::integer, %b::bytea, %b::bytea[],
    %b::text::jsonb)
"""

REPLACE_MESSAGE = "SELECT {s}.replace_message(%b::bigint, %b::text::jsonb, %b::bigint)"
# contents: what is kept of a run, in one answer and of one moment. Bytes are in base64.
CONTENTS = """
SELECT keep, ready IS NOT NULL, is_adopted, (
        SELECT coalesce(jsonb_agg(jsonb_build_array(m.no, m.id, kind, encode(body, 'base64'),
            coalesce(consumed_ordinal, 0), encode(checksum, 'base64')) ORDER BY m.no), '[]')::text
        FROM {s}.inbox AS m WHERE m.run = runs.no), (
        SELECT coalesce(jsonb_agg(jsonb_build_array(name, encode(value, 'base64'), blob,
            encode(checksum, 'base64')) ORDER BY name), '[]')::text
        FROM {s}.exposed AS x WHERE x.run = runs.no), (
        SELECT coalesce(jsonb_agg(jsonb_build_array(message, encode(asked, 'base64'), outcome, encode(value, 'base64'),
            blob, encode(checksum, 'base64')) ORDER BY message), '[]')::text
        FROM {s}.answers AS q WHERE q.run = runs.no), (
        SELECT coalesce(jsonb_agg(jsonb_build_array(name, step, attempt, first_offset, end_offset, is_completed)
            ORDER BY name, end_offset), '[]')::text
        FROM {s}.stream_spans AS p WHERE p.run = runs.no), (
        SELECT coalesce(jsonb_agg(jsonb_build_array(topic, w.key, since) ORDER BY w.no), '[]')::text
        FROM {s}.watchers AS w WHERE w.run = runs.no), (
        SELECT coalesce(jsonb_agg(jsonb_build_array(watcher, a.key, message)), '[]')::text
        FROM {s}.adoptions AS a WHERE a.run = runs.no), (
        SELECT coalesce(jsonb_agg(DISTINCT encode(blob, 'hex')), '[]')::text FROM {s}.run_blobs AS r
        WHERE r.run = runs.no), (
        SELECT coalesce(jsonb_object_agg(encode(holder, 'hex'), names), '{}')::text FROM (
            SELECT holder, jsonb_agg(encode(blob, 'hex')) AS names FROM {s}.blob_blobs
            WHERE holder IN (SELECT blob FROM {s}.run_blobs AS r WHERE r.run = runs.no) GROUP BY holder) AS held)
FROM {s}.runs WHERE no = %b::bigint
"""

TAKE_DUTY = "SELECT {s}.take_duty(%b::text, %b::bigint, %b::text, %b::text, %b::bigint)"
# drop duty: locks its row, if it is ours.
DROP_DUTY = "DELETE FROM {s}.duties WHERE duty = %b::text AND holder = %b::text RETURNING true"

EXPIRED = """
SELECT id, created_at, no, is_expired FROM {s}.expired(%b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint)
"""
REMOVE_TREE = "SELECT runs_gone, rows_gone FROM {s}.remove_tree(%b::bigint, %b::text, %b::bigint)"
COLLECT = "SELECT name, size FROM {s}.collect(%b::bigint, %b::bigint, %b::bigint)"
COLLECTABLE = "SELECT count(*), coalesce(sum(size), 0)::bigint FROM {s}.loose_blobs WHERE at < %b::bigint"

# held only by: reads the references of the runs of these roots, and the other references of those blobs.
HELD_ONLY_BY = """
WITH going AS MATERIALIZED (SELECT no FROM {s}.tree_runs WHERE root = ANY (%b::text[]))
SELECT count(*), coalesce(sum(size), 0)::bigint FROM {s}.blobs
WHERE name IN (SELECT blob FROM {s}.run_blobs WHERE run IN (SELECT no FROM going))
    AND NOT EXISTS (SELECT 1 FROM {s}.run_blobs WHERE run_blobs.blob = blobs.name AND run NOT IN (SELECT no FROM going))
    AND NOT EXISTS (SELECT 1 FROM {s}.blob_blobs WHERE blob_blobs.blob = blobs.name)
"""

# -- the report of space: reads everything -----------------------------------------------------------------------------

TOTAL = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(%b::text)) AND relkind = 'r'
"""
TABLES = """
SELECT 'runs', count(*), coalesce(sum(length(doing)), 0)::bigint FROM {s}.runs
UNION ALL SELECT 'events', count(*), coalesce(sum(length(body)), 0)::bigint FROM {s}.events
UNION ALL SELECT 'inbox', count(*), coalesce(sum(length(body)), 0)::bigint FROM {s}.inbox
UNION ALL SELECT 'exposed', count(*), coalesce(sum(length(value)), 0)::bigint FROM {s}.exposed
UNION ALL SELECT 'streams', count(*), coalesce(sum(length(parts)), 0)::bigint FROM {s}.streams
UNION ALL SELECT 'answers', count(*), coalesce(sum(length(value)), 0)::bigint FROM {s}.answers
UNION ALL SELECT 'snapshots', count(*), coalesce(sum(length(body)), 0)::bigint FROM {s}.snapshots
UNION ALL SELECT 'blobs', count(*), coalesce(sum(size), 0)::bigint FROM {s}.blobs
"""
KINDS = "SELECT kind, count(*), sum(size)::bigint FROM {s}.blobs GROUP BY kind ORDER BY kind"
LARGEST = """
SELECT runs.id, runs.workflow, runs.status, big.rows, big.bytes FROM (
    SELECT run, count(*) AS rows, sum(length(body))::bigint AS bytes FROM {s}.events
    GROUP BY run ORDER BY bytes DESC LIMIT %b::bigint) AS big
JOIN {s}.runs ON runs.no = big.run ORDER BY big.bytes DESC
"""
