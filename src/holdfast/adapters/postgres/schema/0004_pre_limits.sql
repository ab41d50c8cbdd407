-- The tables of the fourth number: limits on steps. Code of the third number still runs: it begins steps without places.
--
-- `body` is what `core.limit` knows of a limit; the columns are what the store decides by. A line is a limit and one of its
-- keys: its row in `rates` is what a transaction locks before it looks at places and waiters of the line. Places are
-- numbered, so that two transactions never take the same one. No foreign keys: a place or waiter of a run that is gone
-- counts for nothing, and goes with the next look at its line.
CREATE TABLE limits (
    name text COLLATE "C" PRIMARY KEY,
    revision bigint NOT NULL,
    interval_us bigint,
    burst bigint NOT NULL,
    at_once bigint,
    is_paused boolean NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE rates (
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    tat bigint NOT NULL,
    quiet_until bigint NOT NULL,
    PRIMARY KEY (name, key)
) WITH (fillfactor = 50);
CREATE TABLE places (
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    slot bigint NOT NULL,
    run bigint NOT NULL,
    step text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (name, key, slot)
);
CREATE INDEX places_by_run ON places (run, step);
CREATE TABLE waiters (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    run bigint NOT NULL,
    step text COLLATE "C" NOT NULL,
    woken_at bigint
);
CREATE UNIQUE INDEX waiters_by_run ON waiters (run, step);
CREATE INDEX waiters_asleep ON waiters (name, key, since, seq) WHERE woken_at IS NULL;
CREATE INDEX waiters_woken ON waiters (name, key, woken_at) WHERE woken_at IS NOT NULL;
CREATE INDEX waiters_by_line ON waiters (name, key, since, seq);
