-- Tables of queues, part of schema 4. Code for schema 3 still works: the functions make its runs wait at gates.

-- A run at the gate of its queue (`ports.queues`): `gated` is 0 without a gate, 1 while it waits to begin, 2 once it has a
-- place. `share`: what it competes as. A waiting run that is due has `ready` 2 and its own index, so claims of other queues
-- and commits never read it.
ALTER TABLE runs ADD COLUMN share text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN gated smallint NOT NULL DEFAULT 0;
CREATE INDEX runs_at_gate ON runs (queue, share, workflow, version, priority DESC, available_at, no) WHERE ready = 2;
CREATE INDEX runs_begun ON runs (queue, share) WHERE gated = 2 AND ended_at IS NULL;

-- The rules of queues. `gate` is what the functions enforce (`core.gate.Gate`), `body` what `core.queue` knows; `time` is
-- the virtual time of the queue, `until` the microsecond up to which its rate is used up.
CREATE TABLE queues (
    name text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    is_gated boolean NOT NULL DEFAULT false,
    time bigint NOT NULL DEFAULT 0,
    until bigint NOT NULL DEFAULT 0,
    gate jsonb NOT NULL DEFAULT '{}',
    body bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- The shares that have runs waiting, and their virtual times: a claim finds the first of ten thousand in one step. A claim
-- that finds a share without runs removes it.
CREATE TABLE shares (
    queue text COLLATE "C" NOT NULL,
    share text COLLATE "C" NOT NULL,
    time bigint NOT NULL,
    PRIMARY KEY (queue, share)
) WITH (fillfactor = 50);
CREATE INDEX shares_by_time ON shares (queue, time, share);

-- Replaced: it returns more columns now.
DROP FUNCTION IF EXISTS claim(bigint, text, bigint, text, text, text[], text[], text[], integer, text[], integer, integer,
    boolean, text[], integer[]);
