"""A worker's part of admission (`ports.admission`): its slots, and the line of runs that wait for them.

Runs begin here in two ways: by the claim loop, and by starts of this process, which are created already begun. Both ask
here. A start of this process is written as pending, like any other, while runs may wait in line: it is then claimed in
the store's fair order, and does not overtake them.
"""

from __future__ import annotations


class Admission:
    """How many runs may begin, and whether others wait."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots = slots
        self._batch = batch
        self.has_line: bool = False
        """Whether due runs may be left that the last pass did not take because it was full."""
        self.waits_for_slots: bool = False
        self.waits_at_gate: bool = False
        """Whether the last pass left runs at the gate of a queue: the end of any run may admit them."""

    def limit(self, busy: int) -> int:
        """How many runs a pass of the claim loop may take now."""
        limit = min(self._slots - busy, self._batch)
        self.waits_for_slots = limit <= 0
        return limit

    def passed(self, taken: int, limit: int, *, is_held_back: bool = False) -> None:
        """Records what a pass took. A pass that was not full left no run waiting, except at a gate."""
        self.has_line = taken >= limit
        self.waits_at_gate = is_held_back

    def begins(self, busy: int) -> bool:
        """Whether a run that is started here may begin at once."""
        return busy < self._slots and not self.has_line
