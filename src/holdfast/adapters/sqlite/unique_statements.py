"""Statements about unique values: which open run has one. Only starts with a unique value execute them."""

from __future__ import annotations

# holder: the open run that has the value. One seek in `uniques`, one in `runs`. Locks nothing.
RUN_BY_UNIQUE = """
SELECT * FROM run_rows WHERE no = (SELECT run FROM uniques WHERE workflow = ? AND value = ?) AND ended_at IS NULL
"""
# hold: the run that had it before has ended, in this or an earlier transaction, or gives it up in this one. Locks
# uniques.
HOLD_UNIQUE = """
INSERT INTO uniques (workflow, value, run, room, latest) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (workflow, value) DO UPDATE SET run = excluded.run, room = excluded.room, latest = excluded.latest
"""
# put off: a run that must not begin before others have ended. A message wakes it. Locks runs.
PUT_OFF = "UPDATE runs SET available_at = NULL, ready = NULL WHERE no = ?"
# join: whether the run that has the value takes inputs of others; then one place less, and the run is due as they ask:
# put off if it is not due yet (?3 to, ?4 at most), or at once (?5). It is not woken. Locks uniques and runs.
GATHERING = "SELECT room, latest FROM uniques WHERE workflow = ? AND value = ? AND room IS NOT NULL"
TAKE_ROOM = "UPDATE uniques SET room = room - 1 WHERE workflow = ? AND value = ? AND room > 0"
GIVE = """
UPDATE runs SET inbox_last = inbox_last + 1, available_at = CASE
    WHEN ?5 THEN min(available_at, ?2)
    WHEN available_at > ?2 AND ?3 IS NOT NULL THEN min(max(available_at, ?3), coalesce(?4, max(available_at, ?3)))
    ELSE available_at END
WHERE no = ?1
"""
