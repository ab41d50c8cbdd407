"""SQL about queues with rules: `core.gate` decides, this counts and records. See `statements` about locks."""

from __future__ import annotations

# -- rules -------------------------------------------------------------------------------------------------------------

QUEUE = "SELECT name, revision, body, gate FROM queues WHERE name = ?"
QUEUES = "SELECT name, revision, body, gate FROM queues ORDER BY name"
IS_GATED = "SELECT 1 FROM queues WHERE name = ? AND is_gated"
REVISION = "SELECT revision, is_gated FROM queues WHERE name = ?"
# put queue: the rules alone; how far the queue has got stays. Locks queues.
PUT_QUEUE = """
INSERT INTO queues (name, revision, is_gated, time, until, gate, body) VALUES (?1, ?2, ?3, 0, 0, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET revision = ?2, is_gated = ?3, gate = ?4, body = ?5
"""
# put gate: the first rules of a queue. What has begun has its place, what waits comes to the gate. Locks runs: all that
# are open in the queue, once. Children stay as they are: they may ride on a place (`NewRun.rides`).
PUT_GATE = """
UPDATE runs SET gated = iif(started_at IS NOT NULL OR instance <> '', 2, 1), share = iif(share = '', workflow, share),
    ready = iif(ready = 1 AND started_at IS NULL AND instance = '', 2, ready)
WHERE queue = ? AND gated = 0 AND parent = '' AND status IN ('pending', 'running', 'paused')
"""

# -- admission ---------------------------------------------------------------------------------------------------------

GATE = "SELECT gate, time, until FROM queues WHERE name = ?"
# begun: runs that have a place, or only those that a worker holds or could claim now (?2).
BEGUN = "SELECT count(*) FROM runs INDEXED BY runs_begun WHERE gated = 2 AND ended_at IS NULL AND queue = ?"
AWAKE = """
SELECT count(*) FROM runs INDEXED BY runs_begun WHERE gated = 2 AND ended_at IS NULL AND queue = ?
    AND (instance <> '' OR ready = 1 OR (ready = 0 AND available_at <= ?))
"""
SHARE_BEGUN = """
SELECT count(*) FROM runs INDEXED BY runs_begun WHERE gated = 2 AND ended_at IS NULL AND queue = ? AND share = ?
"""
SHARE_AWAKE = """
SELECT count(*) FROM runs INDEXED BY runs_begun WHERE gated = 2 AND ended_at IS NULL AND queue = ? AND share = ?
    AND (instance <> '' OR ready = 1 OR (ready = 0 AND available_at <= ?))
"""
HELD_IN_QUEUE = """
SELECT count(*) FROM runs INDEXED BY runs_held WHERE instance = ? AND instance <> '' AND queue = ? AND gated = 2
"""
IN_LINE = """
SELECT time, share FROM shares INDEXED BY shares_by_time WHERE is_away = 0 AND queue = ? AND (time, share) > (?, ?)
ORDER BY time, share LIMIT ?
"""
SHARE_TIME = "SELECT time FROM shares WHERE queue = ? AND share = ?"
LEAVE_LINE = "UPDATE shares SET is_away = 1 WHERE queue = ? AND share = ?"
# move share: its time, and whether it has more runs waiting.
MOVE_SHARE = """
INSERT INTO shares (queue, share, time, is_away) VALUES (?1, ?2, ?3, NOT EXISTS (
    SELECT 1 FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ?1 AND share = ?2))
ON CONFLICT (queue, share) DO UPDATE SET time = excluded.time, is_away = excluded.is_away
"""
MOVE_QUEUE = "UPDATE queues SET time = ?, until = ? WHERE name = ?"
# forget shares: some that are away and would come back where any new one does.
FORGET_SHARES = """
DELETE FROM shares WHERE queue = ?1 AND share IN (
    SELECT share FROM shares INDEXED BY shares_away WHERE is_away = 1 AND queue = ?1 AND time <= ?2 LIMIT ?3)
"""
HAS_MORE = """
SELECT 1 FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ? AND share = ? LIMIT 1 OFFSET ?
"""
IS_AT_GATE = "SELECT 1 FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ? LIMIT 1"
# What waits in a share is met definition by definition, as in `statements.FIRST_READY`.
FIRST_AT_GATE = """
SELECT workflow, version FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ? AND share = ?
ORDER BY workflow, version LIMIT 1
"""
NEXT_VERSION_AT_GATE = """
SELECT workflow, version FROM runs INDEXED BY runs_at_gate
WHERE ready = 2 AND queue = ? AND share = ? AND workflow = ? AND version > ? ORDER BY version LIMIT 1
"""
NEXT_WORKFLOW_AT_GATE = """
SELECT workflow, version FROM runs INDEXED BY runs_at_gate
WHERE ready = 2 AND queue = ? AND share = ? AND workflow > ? ORDER BY workflow, version LIMIT 1
"""
AT_GATE = """
SELECT priority, available_at, no FROM runs INDEXED BY runs_at_gate
WHERE ready = 2 AND queue = ? AND share = ? AND workflow = ? AND version = ?
ORDER BY priority DESC, available_at, no LIMIT ? OFFSET ?
"""

# -- what is in a queue: counts all that waits or has a place ----------------------------------------------------------

# waiting: `id` is of the row with the least `available_at`, as SQLite promises for a bare column beside one min().
WAITING = "SELECT count(*), min(available_at), id FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ?"
WAITING_SHARES = """
SELECT share, count(*) AS waiting, (
    SELECT count(*) FROM runs AS begun INDEXED BY runs_begun
    WHERE gated = 2 AND ended_at IS NULL AND begun.queue = ?1 AND begun.share = runs.share)
FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ?1 GROUP BY share ORDER BY waiting DESC, share LIMIT ?2
"""
COUNT_SHARES = "SELECT count(DISTINCT share) FROM runs INDEXED BY runs_at_gate WHERE ready = 2 AND queue = ?"
