"""SQL about dead instances and suspect runs: `core.suspicion` decides, this records."""

from __future__ import annotations

# Suspects have an index of their own, so that neither a claim nor a heartbeat looks for them among all runs.
SUSPECTS_READY = """
SELECT priority, available_at, no FROM runs INDEXED BY runs_suspect
WHERE deaths > 0 AND instance = '' AND queue = ? AND workflow = ? AND version = ? AND available_at <= ? AND ready = 1
ORDER BY priority DESC, available_at, no LIMIT ?
"""
SUSPECTS_HELD = """
SELECT no FROM runs INDEXED BY runs_suspect WHERE deaths > 0 AND instance = ? AND instance <> '' AND claims > 0 LIMIT 2
"""
HELD_TWO = "SELECT no FROM runs WHERE instance = ? AND instance <> '' LIMIT 2"
# free: the runs of an instance that is gone; available now, epoch as it was. Locks runs. Suspects first, with what the
# death adds (?4); then the others, which are suspects now if their claim counts. See `core.suspicion`. A run that was
# taken past the gate of its queue, and neither claimed nor begun, waits there again.
FREE_SUSPECTS = """
UPDATE runs SET instance = '', available_at = ?1, ready = CASE WHEN status = 'paused' THEN NULL ELSE 1 END,
    deaths = deaths + 1, solo = solo + (?4 > 0), alone = alone + (?4 > 1), added = ?4, freed_from = ?2
WHERE no IN (
    SELECT no FROM runs INDEXED BY runs_suspect
    WHERE deaths > 0 AND instance = ?2 AND instance <> '' AND claims > 0 LIMIT ?3)
RETURNING id
"""
FREE = """
UPDATE runs SET instance = '', available_at = ?1,
    gated = iif(gated = 2 AND started_at IS NULL AND claims = 0, 1, gated),
    ready = CASE WHEN status = 'paused' THEN NULL ELSE iif(gated > 0 AND started_at IS NULL AND claims = 0, 2, 1) END,
    deaths = claims > 0, solo = 0, alone = 0, added = 0, freed_from = ?2
WHERE no IN (SELECT no FROM runs WHERE instance = ?2 AND instance <> '' LIMIT ?3)
RETURNING id
"""
# take back: the instance lives, so its end counts for nothing, unless the run made progress since. Locks runs.
TAKE_BACK = """
UPDATE runs SET claims = claims - 1, deaths = iif(claims > 1, deaths - 1, 0), solo = solo - (added > 0),
    alone = alone - (added > 1), added = 0, freed_from = ''
WHERE no IN (SELECT no FROM runs INDEXED BY runs_freed WHERE deaths > 0 AND freed_from = ?1 AND claims > 0)
    AND ?2 IN ('', id)
"""
# acquit: the run is no longer a suspect. Locks runs. Fenced by epoch.
ACQUIT = "UPDATE runs SET deaths = 0 WHERE no = ? AND epoch = ? AND instance <> '' RETURNING id"

WITH_SUSPICION = "AND no IN (SELECT no FROM runs INDEXED BY runs_suspect WHERE deaths > 0 AND claims > 0)"
