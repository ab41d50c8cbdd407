"""Variants of statements, used when a text in the file is not UTF-8: the same queries, with texts as their stored
bytes. No statement is built from values; each variant is written out here."""

from __future__ import annotations

from holdfast.adapters.sqlite import condition_statements as condition_sql
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite import suspect_statements as suspects_sql
from holdfast.adapters.sqlite import upkeep_statements as upkeep_sql

# run rows: in the order of `rows.run_row`, which takes texts as bytes.
RUN_ROWS = """
SELECT no, CAST(id AS BLOB), CAST(workflow AS BLOB), CAST(version AS BLOB), CAST(code AS BLOB), CAST(codec AS BLOB),
    CAST(status AS BLOB), doing, CAST(queue AS BLOB), priority, CAST(key AS BLOB), CAST(input_hash AS BLOB),
    CAST(parent AS BLOB), CAST(parent_key AS BLOB), CAST(root AS BLOB), deadline, CAST(attributes AS BLOB), created_at,
    started_at, updated_at, ended_at, next_ordinal, available_at, CAST(worker AS BLOB), CAST(instance AS BLOB), epoch,
    claims, inbox_last, inbox_read, bounces, CAST(note AS BLOB), deaths, solo, alone
FROM run_rows
"""
# workers: in the order of `rows.worker_row`, which takes texts as bytes.
WORKERS = """
SELECT CAST(instance AS BLOB), CAST(worker AS BLOB), CAST(queues AS BLOB), CAST(definitions AS BLOB), pid,
    CAST(host AS BLOB), started_at, has_ended, CAST(boot AS BLOB), expires, CAST(progress AS BLOB),
    CAST(recovery AS BLOB), seen_at,
    (SELECT count(*) FROM runs WHERE runs.instance = workers.instance AND runs.instance <> '')
FROM workers ORDER BY started_at, instance
"""
_UNREAD = """
SELECT no, CAST(id AS BLOB), CAST(kind AS BLOB), body, checksum FROM inbox
WHERE run = ? AND no > ? AND consumed_ordinal IS NULL ORDER BY no
"""
_HELD = "SELECT CAST(id AS BLOB), epoch, inbox_last FROM runs WHERE instance = ? AND instance <> ''"
_SIBLINGS = """
SELECT CAST(instance AS BLOB), pid, CAST(host AS BLOB), CAST(mark AS BLOB), CAST(boot AS BLOB) FROM workers
WHERE worker = ? AND instance <> ?
"""
_LEASED_DEFINITIONS = """
SELECT CAST(definitions AS BLOB) FROM workers WHERE has_ended = 0 AND boot = ? AND expires > ?
"""
_QUEUES = "SELECT CAST(queues AS BLOB) FROM workers WHERE instance = ?"
_COUNT_BY_STATUS = "SELECT CAST(status AS BLOB), count(*) FROM runs GROUP BY status"
_EXPOSURES = """
SELECT CAST(name AS BLOB), value, CAST(blob AS BLOB), checksum FROM runs JOIN exposed ON exposed.run = runs.no
WHERE id = ?
ORDER BY name
"""
_ID_OF_RUN = "SELECT CAST(id AS BLOB) FROM runs WHERE no = ?"
_TARGET = "SELECT no, CAST(status AS BLOB), inbox_last FROM runs WHERE id = ?"
_BACKLOG = """
SELECT CAST(workflow AS BLOB), CAST(version AS BLOB), CAST(queue AS BLOB), count(*), CAST(id AS BLOB),
    min(CASE WHEN bounces > 0 THEN updated_at ELSE available_at END) AS since
FROM runs
WHERE (ready = 1 OR ready = 0 OR ready = 2) AND (available_at <= ?1 OR bounces > 0)
GROUP BY workflow, version, queue ORDER BY since
"""
_ENDED_ROOTS = """
SELECT CAST(id AS BLOB), created_at, no FROM runs INDEXED BY runs_by_time
WHERE (created_at, no) > (?1, ?2) AND created_at <= ?3 AND root = '' AND ended_at + coalesce(keep, ?4) <= ?3
ORDER BY created_at, no LIMIT ?5
"""

SHOWN: dict[str, tuple[str, tuple[int, ...]]] = {
    sql.UNREAD: (_UNREAD, (1, 2)),
    sql.HELD: (_HELD, (0,)),
    sql.SIBLINGS: (_SIBLINGS, (0, 2, 3, 4)),
    sql.LEASED_DEFINITIONS: (_LEASED_DEFINITIONS, (0,)),
    sql.QUEUES: (_QUEUES, (0,)),
    sql.COUNT_BY_STATUS: (_COUNT_BY_STATUS, (0,)),
    sql.EXPOSURES: (_EXPOSURES, (0, 2)),
    sql.TARGET: (_TARGET, (1,)),
    sql.ID_OF_RUN: (_ID_OF_RUN, (0,)),
    condition_sql.BACKLOG: (_BACKLOG, (0, 1, 2, 4)),
    upkeep_sql.ENDED_ROOTS: (_ENDED_ROOTS, (0,)),
}
"""Statements whose texts are shown as far as possible, and which of their columns are texts."""

DONE = frozenset((suspects_sql.FREE, suspects_sql.FREE_SUSPECTS, sql.RELEASE, sql.RELEASE_ALL, sql.RECALL))
"""Statements that make all their changes before they return the first row. Their listeners are not told; polling finds
the changes."""

# unreadable ready: texts by which claims look for runs. Reads every run that may be claimed.
CLAIMED_BY = """
SELECT no, CAST(workflow AS BLOB), CAST(version AS BLOB), CAST(share AS BLOB) FROM runs
WHERE ready = 1 OR ready = 0 OR ready = 2
"""
# set aside: not claimed again until the run is written to. Locks runs.
SET_ASIDE = "UPDATE runs SET ready = NULL, note = ? WHERE no = ?"
# holders: who holds runs, by their stored bytes. Reads every run that is held.
HELD_BY = "SELECT no, CAST(instance AS BLOB) FROM runs WHERE instance <> ''"
# free one: its holder has no readable name. Locks runs.
FREE_ONE = """
UPDATE runs SET instance = '', available_at = ?, ready = CASE WHEN status = 'paused' THEN NULL ELSE 1 END WHERE no = ?
"""
