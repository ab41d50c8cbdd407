"""What a turn makes of its run's row: the updates that are the fence of the turn. See `statements` about locks.

The rule is in `ports.row`. `MOVE` and `LEAVE` set the values of its two outcomes, and choose between them by
`inbox_last`: senders bump that in this same row, so no message can slip in between. `ADVANCE` and `END` are for the
turns of most steps and most ends; where they do not apply, the other two do or nothing does.
"""

from __future__ import annotations

# advance: the turn of a running run that keeps its lease and is progress. Locks runs. It changes no indexed column, and
# applies only if the indexed and rare ones stay as they are. ?12: it applies only if the turn has seen every message.
# So it returns nothing: RETURNING makes a table for its rows, which takes longer than the update. (What stood against
# the run stays written while it is held, and counts for nothing without claims: see the fourth migration.)
ADVANCE = """
UPDATE runs SET next_ordinal = next_ordinal + 1, doing = ?1, updated_at = ?2, claims = 0,
    inbox_read = max(inbox_read, ?3)
WHERE no = ?4 AND epoch = ?5 AND next_ordinal = ?6 AND ended_at IS NULL
    AND coalesce((SELECT checksum FROM events WHERE run = ?4 AND ordinal = ?6 - 1), x'') = ?11
    AND status = ?7 AND workflow = ?8 AND version = ?9 AND started_at IS ?10 AND instance <> ''
    AND inbox_last = ?12
"""

# end: the end of a run that has begun, watches no topic and was not adopted. Locks runs. Like `advance` it applies only
# if the turn has seen every message (?12), and returns nothing.
END = """
UPDATE runs SET next_ordinal = next_ordinal + 1, doing = ?1, updated_at = ?2, claims = 0, deaths = 0, instance = '',
    inbox_read = max(inbox_read, ?3), status = ?7, workflow = ?8, version = ?9, started_at = ?10, ended_at = ?2,
    available_at = NULL, ready = NULL
WHERE no = ?4 AND epoch = ?5 AND next_ordinal = ?6 AND ended_at IS NULL
    AND coalesce((SELECT checksum FROM events WHERE run = ?4 AND ordinal = ?6 - 1), x'') = ?11
    AND inbox_last = ?12
    AND NOT EXISTS (SELECT 1 FROM watchers WHERE run = ?4) AND NOT EXISTS (SELECT 1 FROM adoptions WHERE run = ?4)
"""

# move: any turn that keeps the lease. Locks runs. ?13: it clears the claims and what stands against the run. ?14: the
# run may be claimed, which it is if it is not held: its holder was taken for dead.
MOVE = """
UPDATE runs SET next_ordinal = next_ordinal + 1, doing = ?1, updated_at = ?2,
    inbox_read = max(inbox_read, ?3), status = ?7, workflow = ?8, version = ?9, started_at = ?10, ended_at = ?12,
    claims = iif(?13, 0, claims), deaths = iif(?13, 0, deaths),
    ready = CASE
        WHEN NOT ?14 THEN NULL
        WHEN ready IS NULL AND instance = '' AND available_at IS NOT NULL THEN 0
        ELSE ready END
WHERE no = ?4 AND epoch = ?5 AND next_ordinal = ?6 AND ended_at IS NULL
    AND coalesce((SELECT checksum FROM events WHERE run = ?4 AND ordinal = ?6 - 1), x'') = ?11
RETURNING inbox_last
"""

# leave: a turn that gives the lease back, for a while or for good. Locks runs. ?13: what it has seen of the inbox.
# ?14, ?15: when the run is due and where a claim looks for it, if that is all; ?16, ?17: if it is not. ?18: it is taken
# with messages unread, which the caller tells from a fence by reading the row. ?10 null: it has not begun, and waits at
# the gate of its queue again, if that has one. ?19: it ends the run; says whether that
# watches a topic, and whether another adopted it: most do not.
LEAVE = """
UPDATE runs SET next_ordinal = next_ordinal + 1, doing = ?1, updated_at = ?2, claims = 0, deaths = 0, instance = '',
    inbox_read = max(inbox_read, ?3), status = ?7, workflow = ?8, version = ?9, started_at = ?10, ended_at = ?12,
    available_at = iif(inbox_last > ?13, ?16, ?14), gated = iif(gated = 2 AND ?10 IS NULL, 1, gated),
    ready = iif(inbox_last > ?13, ?17, ?15) * iif(gated > 0 AND ?10 IS NULL, 2, 1)
WHERE no = ?4 AND epoch = ?5 AND next_ordinal = ?6 AND ended_at IS NULL
    AND coalesce((SELECT checksum FROM events WHERE run = ?4 AND ordinal = ?6 - 1), x'') = ?11
    AND (?18 OR inbox_last <= ?13)
RETURNING inbox_last, CASE WHEN ?19 THEN EXISTS (SELECT 1 FROM watchers WHERE run = ?4) END,
    CASE WHEN ?19 THEN EXISTS (SELECT 1 FROM adoptions WHERE run = ?4) END
"""
