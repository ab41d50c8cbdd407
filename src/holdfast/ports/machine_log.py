"""The smallest store: three methods keep the log of standalone machines.

Each may be `async def` or `def`. One object may serve many runs at once. `holdfast.testing.conformance` has the cases
that an implementation has to pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from holdfast.core.machine_history import LogRow


class MachineLog(Protocol):
    """The store of a standalone machine's log."""

    def append(self, run_id: str, row: LogRow, /) -> Awaitable[None] | None:
        """Keeps the whole row, durable when it returns.

        A second row with the same run and sequence raises an error (`Conflict`, or any other) and leaves the first one
        unchanged: it means that two processes run one id.
        """
        ...

    def load(self, run_id: str, /) -> Awaitable[Sequence[LogRow]] | Sequence[LogRow]:
        """Every row of that run, ascending by sequence; empty for an unknown id."""
        ...

    def clear(self, run_id: str, /) -> Awaitable[None] | None:
        """Drops the rows of that run and of no other; an unknown id is not an error."""
        ...
