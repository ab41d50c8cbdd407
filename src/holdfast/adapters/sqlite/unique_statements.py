"""Statements about unique values: which open run has one. Only starts with a unique value execute them."""

from __future__ import annotations

# holder: the open run that has the value. One seek in `uniques`, one in `runs`. Locks nothing.
RUN_BY_UNIQUE = """
SELECT * FROM run_rows WHERE no = (SELECT run FROM uniques WHERE workflow = ? AND value = ?) AND ended_at IS NULL
"""
# hold: the run that had it before has ended, in this or an earlier transaction. Locks uniques.
HOLD_UNIQUE = """
INSERT INTO uniques (workflow, value, run) VALUES (?, ?, ?)
ON CONFLICT (workflow, value) DO UPDATE SET run = excluded.run
"""
