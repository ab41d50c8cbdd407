-- Tables of the store. Run with the schema as search path; names are never qualified.
--
-- Times are microseconds since 1970, as everywhere in the store. There are no foreign keys: every write goes through the
-- functions, which have locked the run's row, and a key check would lock it once more for each row.

-- version, oldest: see `migrating`. cluster, first_seq: see `settle`. folder: the mark of the folder that the blobs are in,
-- see `adapters.blobs`.
CREATE TABLE meta (
    name text PRIMARY KEY,
    value bigint NOT NULL
);

-- One row per run. The hot update of a commit changes only columns that no index holds (next_ordinal, doing, updated_at,
-- claims, inbox_read), so with room on the page it is a heap-only update: no index is written. `ready` says where a
-- claim looks for the run: 1 claimable now, 0 once `available_at` has come, null not at all (held, paused, ended,
-- waiting for a message alone). `root` is empty for a run that is its own root. Half of a page is left free: a batch that
-- advances all its runs finds room for every new row beside the old one. Fixed widths come first, so nothing is padded.
-- deaths, solo, alone: what stands against a run since its workers died, see `core.suspicion`; and for taking it back, from
-- which instance the run was freed last, and what that death added.
CREATE TABLE runs (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    priority bigint NOT NULL,
    available_at bigint,
    deadline bigint,
    created_at bigint NOT NULL,
    started_at bigint,
    updated_at bigint NOT NULL,
    ended_at bigint,
    keep bigint,
    epoch integer NOT NULL,
    next_ordinal integer NOT NULL,
    inbox_last integer NOT NULL DEFAULT 0,
    inbox_read integer NOT NULL DEFAULT 0,
    claims integer NOT NULL,
    bounces integer NOT NULL DEFAULT 0,
    deaths integer NOT NULL DEFAULT 0,
    solo integer NOT NULL DEFAULT 0,
    alone integer NOT NULL DEFAULT 0,
    added smallint NOT NULL DEFAULT 0,
    ready smallint,
    is_adopted boolean NOT NULL DEFAULT false,
    id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    note text NOT NULL DEFAULT '',
    freed_from text COLLATE "C" NOT NULL DEFAULT '',
    key text COLLATE "C" NOT NULL,
    input_hash text NOT NULL,
    parent text COLLATE "C" NOT NULL,
    parent_key text NOT NULL,
    root text COLLATE "C" NOT NULL,
    code text NOT NULL,
    codec text NOT NULL,
    doing bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX runs_by_id ON runs (id);
CREATE INDEX runs_ready ON runs (queue, workflow, version, priority DESC, available_at, no) WHERE ready = 1;
CREATE INDEX runs_due ON runs (queue, available_at) WHERE ready = 0;
CREATE INDEX runs_held ON runs (instance) WHERE instance <> '';
CREATE INDEX runs_suspect ON runs (instance, queue, workflow, version, priority DESC, available_at, no) WHERE deaths > 0;
CREATE INDEX runs_freed ON runs (freed_from) WHERE deaths > 0;
CREATE INDEX runs_put_off ON runs (workflow, version) WHERE bounces > 0;
CREATE INDEX runs_keyed ON runs (workflow, key, created_at) WHERE key <> '';
CREATE INDEX runs_by_time ON runs (created_at, no);
CREATE INDEX runs_by_status ON runs (status, created_at, no);
CREATE INDEX runs_by_workflow ON runs (workflow, created_at, no);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';
CREATE INDEX runs_by_root ON runs (root) WHERE root <> '';
CREATE INDEX runs_by_worker ON runs (worker, created_at, no) WHERE worker <> '' AND ended_at IS NULL;

-- In a separate table, so that commits do not rewrite them and lookups use an index.
CREATE TABLE attributes (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE INDEX attributes_by_value ON attributes (name, value);

-- The row of a run, with columns in the order of `adapters.sql.rows.run_row`.
CREATE VIEW run_rows AS SELECT
    no, id, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key, root,
    deadline,
    coalesce((SELECT json_object_agg(name, value)::text FROM attributes WHERE run = runs.no), '{}') AS attributes,
    created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker, instance, epoch, claims,
    inbox_last, inbox_read, bounces, note,
    CASE WHEN claims > 0 THEN deaths ELSE 0 END AS deaths, CASE WHEN claims > 0 AND deaths > 0 THEN solo ELSE 0 END AS solo,
    CASE WHEN claims > 0 AND deaths > 0 THEN alone ELSE 0 END AS alone
FROM runs;

-- A tree: the root and all its descendants, by the id of the root.
CREATE VIEW tree_runs AS
SELECT id AS root, no, id FROM runs WHERE root = '' UNION ALL SELECT root, no, id FROM runs WHERE root <> '';

-- The journal: one row per turn, appended, and changed by compaction alone. `seq` is the number of the transaction that
-- wrote the row and the row's place in it (see `_next_seq`). A transaction that can follow another has a greater number,
-- so in a run, and along everything one run causes in others, seq rises. And a reader of a whole tree knows where to
-- stop: at the oldest transaction that is still under way, since whatever appears later has a greater seq. Rows lie in
-- about that order, so an index of blocks serves those who follow.
CREATE TABLE events (
    seq bigint NOT NULL,
    run bigint NOT NULL,
    at bigint NOT NULL,
    ordinal integer NOT NULL,
    epoch integer NOT NULL,
    format smallint NOT NULL,
    checksum bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (run, ordinal)
);
CREATE INDEX events_by_seq ON events USING brin (seq) WITH (pages_per_range = 16, autosummarize = on);

-- Numbers are dense per run. Consumed rows stay, so that a late retry of a sender is recognised. `checksum`: of the id of
-- the run, and of id, kind and body (`core.checksums`).
CREATE TABLE inbox (
    run bigint NOT NULL,
    no bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    body bytea NOT NULL,
    at bigint NOT NULL,
    consumed_ordinal bigint,
    checksum bytea NOT NULL,
    PRIMARY KEY (run, id)
);
CREATE INDEX inbox_unread ON inbox (run, no) WHERE consumed_ordinal IS NULL;

CREATE TABLE watchers (
    no bigint GENERATED ALWAYS AS IDENTITY,
    topic text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (run, key)
);
CREATE INDEX watchers_by_topic ON watchers (topic, no);

-- Runs that want to know the end of a run they did not make; `message` is the id of the message they get. The run's row has
-- `is_adopted` if there are any, so a turn that ends the run sees it under the row's lock.
CREATE TABLE adoptions (
    run bigint NOT NULL,
    watcher text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, watcher, message)
);

CREATE TABLE exposed (
    run bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    blob text NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (run, name)
);

-- `at`: when the blob was last stored or lost a reference. No data if the bytes are kept elsewhere.
CREATE TABLE blobs (
    name bytea PRIMARY KEY,
    kind text NOT NULL,
    at bigint NOT NULL,
    size bigint NOT NULL,
    data bytea
);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;

-- What refers to a blob: runs, and blobs whose bytes name others.
CREATE TABLE run_blobs (
    run bigint NOT NULL,
    blob bytea NOT NULL,
    PRIMARY KEY (run, blob)
);
CREATE INDEX run_blobs_by_blob ON run_blobs (blob);
CREATE TABLE blob_blobs (
    holder bytea NOT NULL,
    blob bytea NOT NULL,
    PRIMARY KEY (holder, blob)
);
CREATE INDEX blob_blobs_by_blob ON blob_blobs (blob);

CREATE TABLE snapshots (
    run bigint PRIMARY KEY,
    ordinal bigint NOT NULL,
    checksum bytea NOT NULL,
    body bytea NOT NULL
);

-- Duties that one worker at a time performs; `expires` as for workers.
CREATE TABLE duties (
    duty text PRIMARY KEY,
    holder text NOT NULL,
    lease_boot text NOT NULL,
    expires bigint NOT NULL
);

-- `expires` is in microseconds of the server's clock. `boot` and `mark` tell, on the worker's own host, its process from
-- a later one of the same pid; `lease_boot` is empty but under a clock that tests move.
CREATE TABLE workers (
    instance text COLLATE "C" PRIMARY KEY,
    worker text COLLATE "C" NOT NULL,
    queues text NOT NULL,
    definitions text NOT NULL,
    pid bigint NOT NULL,
    host text NOT NULL,
    boot text NOT NULL,
    mark text NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    lease_boot text NOT NULL,
    expires bigint NOT NULL,
    has_ended boolean NOT NULL DEFAULT false,
    progress text NOT NULL,
    recovery text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE INDEX workers_by_id ON workers (worker);
