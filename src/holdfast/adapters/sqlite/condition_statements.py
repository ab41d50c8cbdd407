"""SQL about the condition of a store: damaged rows and waiting runs."""

from __future__ import annotations

# open runs: with any status that is not an end, even an unknown one. Reads the rows of all runs, a piece at a time.
OPEN_RUNS = """
SELECT * FROM run_rows WHERE no > ? AND status NOT IN ('completed', 'failed', 'cancelled') ORDER BY no LIMIT ?
"""

# backlog: who waits for a worker now (?1), by definition and queue. Reads every unheld run that may be claimed, from
# the partial indexes and the rows behind them; locks nothing. `id` is of the row with the least `since`, as SQLite
# promises for a bare column beside one min().
BACKLOG = """
SELECT workflow, version, queue, count(*), id, min(CASE WHEN bounces > 0 THEN updated_at ELSE available_at END) AS since
FROM runs
WHERE (ready = 1 OR ready = 0 OR ready = 2) AND (available_at <= ?1 OR bounces > 0)
GROUP BY workflow, version, queue ORDER BY since
"""
