"""Programs of runs that are not held, kept in memory for a while, so that a run that comes back needs no replay."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

import msgspec

from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.engine.report import close
from holdfast.ports.runs import RunRow
from holdfast.ports.telemetry import Telemetry
from holdfast.turn import park

SPARE = 100
"""Up to this many programs (about 10 kB each) are kept in any case; beyond that, only those that wake soon."""


class WarmProgram(msgspec.Struct):
    """A program, and the fold of its run when it was left."""

    run: Run
    program: Program
    telemetry: Telemetry

    def close(self) -> None:
        close(self.telemetry, self.program, self.run.id)


class WarmPrograms:
    """At most `limit` programs; the oldest is dropped first."""

    def __init__(self, limit: int, telemetry: Telemetry) -> None:
        self._limit = limit
        self._telemetry = telemetry
        self._kept: OrderedDict[str, WarmProgram] = OrderedDict()

    def values(self) -> list[WarmProgram]:
        """All programs that are kept."""
        return list(self._kept.values())

    def is_worth_it(self, run: Run, program: Program, at: datetime) -> bool:
        """Whether a run may be back soon, or there is room."""
        return len(self._kept) < SPARE or park.wakes_soon(run, program, at)

    def keep(self, run: Run, program: Program) -> None:
        """Keeps a program until it is taken, or others need the room."""
        self._kept[run.id] = WarmProgram(run, program, self._telemetry)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)[1].close()

    def take(self, row: RunRow) -> WarmProgram | None:
        """The program of a claimed run, if no other worker held the run in between."""
        kept = self._kept.pop(row.id, None)
        if kept is None:
            return None
        is_still_true = row.epoch == kept.run.epoch + 1 and row.next_ordinal == kept.run.ordinal + 1
        if is_still_true and not row.damage:
            return kept
        kept.close()
        return None

    def clear(self) -> None:
        for kept in self.values():
            kept.close()
        self._kept.clear()
