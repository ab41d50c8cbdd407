-- Shares that are away, part of schema 6. Code for schema 5 still works: what a claim does with shares is in the functions.

-- A share keeps its row while it is away, until the queue's time has passed its own (`core.gate`). A claim reads only those
-- that are in line. `queues.time` is where a share that comes in line begins.
ALTER TABLE shares ADD COLUMN is_away boolean NOT NULL DEFAULT false;
DROP INDEX shares_by_time;
CREATE INDEX shares_by_time ON shares (queue, time, share) WHERE NOT is_away;
CREATE INDEX shares_away ON shares (queue, time) WHERE is_away;
