"""The schema, as the sum of its migrations. Forward only: each is one transaction, and the file says how far it got.

Two processes that start at once both come here; the second waits for the first and then finds the work done. A file of
a newer Holdfast, or of another program, is refused before anything is written.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import begin, fetch, pragma, roll_back, run, until_free
from holdfast.adapters.sqlite.limit_statements import LIMITS
from holdfast.adapters.sqlite.queue_tables import QUEUES_SCHEMA, SHARES_AWAY
from holdfast.adapters.sqlite.stream_tables import STREAMS
from holdfast.errors import StoreRefused
from holdfast.ports.condition import Schema

APPLICATION_ID = 0x484F4C44
"""The application id in the header of every store's file: "HOLD"."""

_FIRST = """
-- One row per run. The hot update of a commit changes only columns that no index holds (next_ordinal, doing,
-- updated_at, claims, inbox_read), so it rewrites one row and no index. `ready` says where a claim looks for the run:
-- 1 claimable now, 0 once `available_at` has come, null not at all (held, paused, ended, waiting for a message alone).
-- `root` is empty for a run that is its own root. No number is used twice: a stale holder knows its run by number.
CREATE TABLE runs (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    next_ordinal INTEGER NOT NULL,
    status TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at INTEGER,
    inbox_last INTEGER NOT NULL,
    inbox_read INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    instance TEXT NOT NULL,
    available_at INTEGER,
    ready INTEGER,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    worker TEXT NOT NULL,
    bounces INTEGER NOT NULL,
    note TEXT NOT NULL,
    key TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    parent TEXT NOT NULL,
    parent_key TEXT NOT NULL,
    root TEXT NOT NULL,
    code TEXT NOT NULL,
    codec TEXT NOT NULL,
    deadline INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    keep INTEGER,
    doing BLOB NOT NULL
) STRICT;
CREATE INDEX runs_ready ON runs (queue, workflow, version, priority DESC, available_at) WHERE ready = 1;
CREATE INDEX runs_due ON runs (queue, available_at) WHERE ready = 0;
CREATE INDEX runs_held ON runs (instance) WHERE instance <> '';
CREATE INDEX runs_put_off ON runs (workflow, version) WHERE bounces > 0;
CREATE INDEX runs_keyed ON runs (workflow, key, created_at) WHERE key <> '';
CREATE INDEX runs_by_time ON runs (created_at);
CREATE INDEX runs_by_status ON runs (status, created_at);
CREATE INDEX runs_by_workflow ON runs (workflow, created_at);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';
CREATE INDEX runs_by_root ON runs (root) WHERE root <> '';

-- Beside the run, so that they are neither rewritten by commits nor searched for by scanning.
CREATE TABLE attributes (
    run INTEGER NOT NULL REFERENCES runs (no),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX attributes_by_value ON attributes (name, value);

-- A run as its row says, in the order of `rows.run_row`.
CREATE VIEW run_rows AS SELECT
    no, id, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key, root,
    deadline,
    (SELECT json_group_object(name, value) FROM attributes WHERE run = runs.no) AS attributes,
    created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker, instance, epoch, claims,
    inbox_last, inbox_read, bounces, note
FROM runs;

-- A tree: the root and all its descendants, by the id of the root.
CREATE VIEW tree_runs AS
SELECT id AS root, no FROM runs WHERE root = '' UNION ALL SELECT root, no FROM runs WHERE root <> '';

-- The journal: one row per turn, appended and never changed. No foreign key: the fenced update of the run in the same
-- transaction is the proof that it exists. No AUTOINCREMENT, which would write one page more in every commit: the
-- trigger keeps the newest row, so a seq is never used twice either way.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    format INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_run ON events (run, ordinal);
CREATE TRIGGER newest_event_stays BEFORE DELETE ON events WHEN old.seq = (SELECT max(seq) FROM events)
BEGIN
    SELECT raise(ABORT, 'the newest journal row stays: its seq must not be used again');
END;

-- Numbers are dense per run. Consumed rows stay, so that a late retry of a sender is recognised.
CREATE TABLE inbox (
    run INTEGER NOT NULL REFERENCES runs (no),
    no INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    at INTEGER NOT NULL,
    consumed_ordinal INTEGER
) STRICT;
CREATE UNIQUE INDEX inbox_by_sender ON inbox (run, id);
CREATE INDEX inbox_unread ON inbox (run, no) WHERE consumed_ordinal IS NULL;

CREATE TABLE watchers (
    topic TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (no),
    key TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;
CREATE INDEX watchers_by_topic ON watchers (topic);
CREATE UNIQUE INDEX watchers_by_run ON watchers (run, key);

-- Who asked to be told of the end of a run it did not make; `message` is the id it will be told under.
CREATE TABLE adoptions (
    run INTEGER NOT NULL REFERENCES runs (no),
    watcher TEXT NOT NULL,
    key TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (run, watcher, message)
) STRICT, WITHOUT ROWID;

CREATE TABLE exposed (
    run INTEGER NOT NULL REFERENCES runs (no),
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    blob TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX exposed_by_run ON exposed (run, name);

-- `at`: when the blob was last stored or lost a reference. The bytes come last, so that nobody reads over them; null
-- if they are kept elsewhere.
CREATE TABLE blobs (
    name BLOB NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB
) STRICT;
CREATE UNIQUE INDEX blobs_by_name ON blobs (name);

-- Who refers to a blob: runs, and blobs whose bytes name others.
CREATE TABLE run_blobs (
    run INTEGER NOT NULL REFERENCES runs (no),
    blob BLOB NOT NULL,
    PRIMARY KEY (run, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_blobs_by_blob ON run_blobs (blob);
CREATE TABLE blob_blobs (
    holder BLOB NOT NULL,
    blob BLOB NOT NULL,
    PRIMARY KEY (holder, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_blobs_by_blob ON blob_blobs (blob);

CREATE TABLE snapshots (
    run INTEGER PRIMARY KEY REFERENCES runs (no),
    ordinal INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- What only one is to do at a time; `expires` as for workers.
CREATE TABLE duties (
    duty TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    boot TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `expires` is in microseconds since the boot named by `boot`. `mark` tells the process from a later one of its pid.
CREATE TABLE workers (
    instance TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    queues TEXT NOT NULL,
    definitions TEXT NOT NULL,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    mark TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    boot TEXT NOT NULL,
    expires INTEGER NOT NULL,
    has_ended INTEGER NOT NULL,
    progress TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_SECOND = """
-- What the recovery of a worker met, for whoever looks after it; and a worker's own runs, to be listed without looking
-- at everybody's. A run that has ended is in no such list, so its index stays as small as the work at hand.
ALTER TABLE workers ADD COLUMN recovery TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_worker ON runs (worker, created_at) WHERE worker <> '' AND ended_at IS NULL;
"""

_THIRD = """
-- What a store knows about itself. `folder`: the mark of the folder that its blobs are in, see `adapters.blobs`.
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_FOURTH = """
-- Checksums of what stands in no journal, or not only there. Empty: written before there were any.
ALTER TABLE inbox ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE exposed ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';

-- What stands against a run since its workers died, see `core.suspicion`; and for taking it back, from which instance
-- the run was freed last, and what that death added. A turn that is progress leaves `deaths` as it is, so it writes no
-- index: of a run that is held they count only while `claims` does. Whatever gives a run back sets them right.
ALTER TABLE runs ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN solo INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN freed_from TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN added INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_suspect ON runs (instance, queue, workflow, version, priority DESC, available_at) WHERE deaths > 0;
CREATE INDEX runs_freed ON runs (freed_from) WHERE deaths > 0;
DROP VIEW run_rows;
CREATE VIEW run_rows AS SELECT
    no, id, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key, root,
    deadline,
    (SELECT json_group_object(name, value) FROM attributes WHERE run = runs.no) AS attributes,
    created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker, instance, epoch, claims,
    inbox_last, inbox_read, bounces, note,
    iif(claims > 0, deaths, 0) AS deaths, iif(claims > 0 AND deaths > 0, solo, 0) AS solo,
    iif(claims > 0 AND deaths > 0, alone, 0) AS alone
FROM runs;
"""

_REFERENCES = """
-- What of a run refers to a blob: `source` is row (of the ordinal `number`), message (of that number), value (of that
-- name) or snapshot; each goes with its source. Of a run that was there before, all it refers to stays until the run
-- goes (`source` run): nobody looks into its rows again. `refers`: whether the value that is shown has references.
CREATE TABLE sources (
    run INTEGER NOT NULL REFERENCES runs (no),
    source TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    blob BLOB NOT NULL,
    PRIMARY KEY (run, source, number, name, blob)
) STRICT, WITHOUT ROWID;
INSERT INTO sources (run, source, number, name, blob) SELECT run, 'run', 0, '', blob FROM run_blobs;
DROP TABLE run_blobs;
ALTER TABLE sources RENAME TO run_blobs;
CREATE INDEX run_blobs_by_blob ON run_blobs (blob);
ALTER TABLE exposed ADD COLUMN refers INTEGER NOT NULL DEFAULT 0;
"""

_SCHEDULES = """
-- Schedules. `body` is what `core.schedule` knows of it; the columns are what the store is asked by. A schedule that
-- nothing is due of has no `next_at`, and no place in the index.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    next_at INTEGER,
    workflow TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
"""

_FIFTH = _REFERENCES + _SCHEDULES

_SIXTH = """
-- Of each workflow and unique value the run that had it last: it has it until it ends. Beside the runs, so that neither
-- a run without such a value nor the end of any run costs more.
CREATE TABLE uniques (
    workflow TEXT NOT NULL,
    value TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (no),
    PRIMARY KEY (workflow, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX uniques_by_run ON uniques (run);
"""

_ANSWERS = """
-- Questions that were put to runs, each with what became of it: kept as long as the run, so that who asked finds it
-- whatever happened since. `asked`: the hash of the question's value; an empty `outcome`: it is open.
CREATE TABLE answers (
    run INTEGER NOT NULL REFERENCES runs (no),
    message TEXT NOT NULL,
    asked BLOB NOT NULL,
    outcome TEXT NOT NULL,
    value BLOB NOT NULL,
    blob TEXT NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, message)
) STRICT, WITHOUT ROWID;
"""

_GATHERING = """
-- Whether the run that has a unique value takes the inputs of further starts before it begins: `room` for how many more
-- (-1: any number; null: it takes none), and when it begins at the latest.
ALTER TABLE uniques ADD COLUMN room INTEGER;
ALTER TABLE uniques ADD COLUMN latest INTEGER;
"""

_SEVENTH = LIMITS + STREAMS + _ANSWERS + QUEUES_SCHEMA + _GATHERING

MIGRATIONS: tuple[str, ...] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, SHARES_AWAY)
"""The n-th migration brings a file from version n to n + 1. A published one never changes."""


def schema_version(connection: apsw.Connection | None, path: Path) -> Schema:
    """The version of the file. Raises `StoreRefused` if this code must not touch it. Writes nothing."""
    latest = len(MIGRATIONS)
    if connection is None:
        return Schema(0, latest)
    version, application, is_empty = until_free(lambda: _header(connection, path))
    if application != APPLICATION_ID and not (application == 0 and version == 0 and is_empty):
        raise StoreRefused(
            f"cannot open the store {path}: it is a SQLite database of another program. Use a file of its own."
        )
    if version > latest:
        raise StoreRefused(
            f"cannot open the store {path}: its schema has version {version}, this Holdfast knows up to {latest}. "
            "A newer Holdfast wrote it: upgrade this one."
        )
    return Schema(version, latest)


def check_version(connection: apsw.Connection, path: Path, *, auto_migrate: bool) -> bool:
    """Whether the file needs a migration. Raises `StoreRefused` if it needs one and may not get it. Writes nothing."""
    schema = schema_version(connection, path)
    if schema.pending and not auto_migrate:
        raise StoreRefused(
            f"cannot open the store {path}: its schema has version {schema.version}, this Holdfast needs "
            f"{schema.latest}, and automatic migration is off. Migrate it first (holdfast migrate), or open it with "
            "auto_migrate=True."
        )
    return bool(schema.pending)


def migrate(connection: apsw.Connection, migrations: tuple[str, ...] = MIGRATIONS) -> None:
    """Migrates the file to the latest version, one transaction per step."""
    while True:
        begin(connection)
        try:
            version = int(pragma(connection, "user_version"))
            if version < len(migrations):
                run(connection, migrations[version])
                pragma(connection, "application_id", APPLICATION_ID)
                pragma(connection, "user_version", version + 1)
            run(connection, sql.COMMIT)
        except BaseException:
            roll_back(connection)
            raise
        if version + 1 >= len(migrations):
            return


def _header(connection: apsw.Connection, path: Path) -> tuple[int, int, bool]:
    try:
        is_empty = not fetch(connection, sql.HAS_TABLES)
    except apsw.NotADBError as error:
        raise StoreRefused(
            f"cannot open the store {path}: the file is not a SQLite database. Name another file."
        ) from error
    return int(pragma(connection, "user_version")), int(pragma(connection, "application_id")), is_empty
