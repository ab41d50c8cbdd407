"""The tables of queues, which are one migration, and what was added to them."""

from __future__ import annotations

QUEUES_SCHEMA = """
-- How a run stands to the gate of its queue (`ports.queues`): `gated` is 0 if it has none, 1 while it waits to begin, 2
-- once it has its place. `share`: what it competes as. A run that waits and is due has `ready` 2, and its own index, so
-- that neither a claim of other queues nor a commit meets it.
ALTER TABLE runs ADD COLUMN share TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN gated INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_at_gate ON runs (queue, share, workflow, version, priority DESC, available_at) WHERE ready = 2;
CREATE INDEX runs_begun ON runs (queue, share) WHERE gated = 2 AND ended_at IS NULL;

-- The rules of queues. `gate` is what the store enforces, `body` what `core.queue` knows; `time` is the virtual time
-- that the queue has reached, `until` the microsecond up to which its rate is used up.
CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    is_gated INTEGER NOT NULL,
    time INTEGER NOT NULL,
    until INTEGER NOT NULL,
    gate BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The shares that have runs waiting, and their virtual times: a claim finds the first of ten thousand in one step. A
-- claim that finds a share without runs removes it.
CREATE TABLE shares (
    queue TEXT NOT NULL,
    share TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (queue, share)
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_by_time ON shares (queue, time, share);

-- Whatever brings a run to a gate, its share is in line: level with what the queue has reached, unless it is ahead.
CREATE TRIGGER run_made_at_gate AFTER INSERT ON runs WHEN new.ready = 2
BEGIN
    INSERT INTO queues (name, revision, is_gated, time, until, gate, body) VALUES (new.queue, 0, 0, 0, 0, x'7b7d', x'')
    ON CONFLICT DO NOTHING;
    INSERT INTO shares (queue, share, time) SELECT new.queue, new.share, time FROM queues WHERE name = new.queue
    ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER run_came_to_gate AFTER UPDATE OF ready ON runs WHEN new.ready = 2
BEGIN
    INSERT INTO queues (name, revision, is_gated, time, until, gate, body) VALUES (new.queue, 0, 0, 0, 0, x'7b7d', x'')
    ON CONFLICT DO NOTHING;
    INSERT INTO shares (queue, share, time) SELECT new.queue, new.share, time FROM queues WHERE name = new.queue
    ON CONFLICT DO NOTHING;
END;
"""

SHARES_AWAY = """
-- A share keeps its row while it is away, until the queue's time has passed its own (`core.gate`). A claim reads only
-- those that are in line. `queues.time` is where a share that comes in line begins.
ALTER TABLE shares ADD COLUMN is_away INTEGER NOT NULL DEFAULT 0;
DROP INDEX shares_by_time;
CREATE INDEX shares_by_time ON shares (queue, time, share) WHERE is_away = 0;
CREATE INDEX shares_away ON shares (queue, time) WHERE is_away = 1;

-- Whatever brings a run to a gate, its share is in line: where it was, but not below the time of the queue.
DROP TRIGGER run_made_at_gate;
CREATE TRIGGER run_made_at_gate AFTER INSERT ON runs WHEN new.ready = 2
BEGIN
    INSERT INTO queues (name, revision, is_gated, time, until, gate, body) VALUES (new.queue, 0, 0, 0, 0, x'7b7d', x'')
    ON CONFLICT DO NOTHING;
    INSERT INTO shares (queue, share, time) SELECT new.queue, new.share, time FROM queues WHERE name = new.queue
    ON CONFLICT (queue, share) DO UPDATE SET is_away = 0, time = max(time, excluded.time) WHERE is_away = 1;
END;
DROP TRIGGER run_came_to_gate;
CREATE TRIGGER run_came_to_gate AFTER UPDATE OF ready ON runs WHEN new.ready = 2
BEGIN
    INSERT INTO queues (name, revision, is_gated, time, until, gate, body) VALUES (new.queue, 0, 0, 0, 0, x'7b7d', x'')
    ON CONFLICT DO NOTHING;
    INSERT INTO shares (queue, share, time) SELECT new.queue, new.share, time FROM queues WHERE name = new.queue
    ON CONFLICT (queue, share) DO UPDATE SET is_away = 0, time = max(time, excluded.time) WHERE is_away = 1;
END;
"""
