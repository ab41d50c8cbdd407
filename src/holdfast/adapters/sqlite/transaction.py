"""What an operation of the writer receives: the connection inside a write transaction, its time, and its hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec

from holdfast.adapters.sqlite.connections import Bindings, fetch, run
from holdfast.core.turn import micros
from holdfast.ports.clock import Clock

T = TypeVar("T")


class Transaction(msgspec.Struct, eq=False):
    """One write transaction, which operations of several callers may share. `is_again`: an earlier try of the same
    operation may have been committed, and its outcome was lost."""

    connection: apsw.Connection
    clock: Clock
    is_again: bool = False
    hints: dict[str, None] = {}
    _now: int | None = None

    @property
    def now(self) -> int:
        """Wall time in microseconds, one instant for the whole transaction."""
        if self._now is None:
            self._now = micros(self.clock.now())
        return self._now

    def run(self, statement: str, values: Bindings = ()) -> None:
        """Executes a statement for its effect."""
        run(self.connection, statement, values)

    def row(self, statement: str, values: Bindings = ()) -> Any:
        """The first row, or None. The statement runs to its end."""
        rows = fetch(self.connection, statement, values)
        return rows[0] if rows else None

    def rows(self, statement: str, values: Bindings = ()) -> list[Any]:
        return fetch(self.connection, statement, values)

    def hint(self, run: str) -> None:
        """Tells listeners of this run once the transaction is durable."""
        self.hints[run] = None


Operation: TypeAlias = Callable[[Transaction], T]
"""Work for the writer. It reads before it writes; if it raises a `HoldfastError`, it has written nothing."""
