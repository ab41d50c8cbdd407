"""Statements about unique values: which open run has one. Only starts that name a value execute them."""

from __future__ import annotations

# holder: the open run that has the value. One seek in `uniques`, one in `runs`. Locks nothing.
RUN_BY_UNIQUE = """
SELECT * FROM run_rows WHERE no = (SELECT run FROM uniques WHERE workflow = ? AND value = ?) AND ended_at IS NULL
"""
# hold: the run that had it before has ended, in this or an earlier transaction, or gives it up in this one. Locks
# uniques.
HOLD_UNIQUE = """
INSERT INTO uniques (workflow, value, run) VALUES (?, ?, ?)
ON CONFLICT (workflow, value) DO UPDATE SET run = excluded.run
"""
# put off: a run that must not begin before others have ended. A message wakes it. Locks runs.
PUT_OFF = "UPDATE runs SET available_at = NULL, ready = NULL WHERE no = ?"
