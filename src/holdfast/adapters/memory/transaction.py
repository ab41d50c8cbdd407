"""One write to the memory store, step by step. The caller holds the lock; `hints` are for the listeners afterwards.

Rows of runs are replaced, never changed, so what a reader holds never changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from holdfast.adapters.memory.tables import Tables
from holdfast.ports.runs import RunRow


@dataclass(slots=True)
class Transaction:
    """What one call writes, at one instant."""

    tables: Tables
    now: datetime
    hints: dict[str, None] = field(default_factory=dict[str, None])

    def change(self, no: int, **columns: object) -> RunRow:
        """Replaces the run's row by one with these values."""
        run = msgspec.structs.replace(self.tables.runs[no], **columns)
        self.tables.runs[no] = run
        return run
