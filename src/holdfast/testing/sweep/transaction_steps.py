"""Steps with `tx=True` in a sweep: what they write exists exactly if their outcome does.

A sweep has no database, so such a step is faked, and the fake's state represents the tables. It behaves like a
transaction: changes of a body are set aside when it returns, and applied when the turn with its outcome is written; an
attempt that fails, is cut off or is fenced leaves nothing. One at a time, as with one file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from msgspec.structs import replace

from holdfast.core.specs import StepSpec
from holdfast.errors import InvalidInput
from holdfast.ports.journal import Commit, Unread, Verdict
from holdfast.ports.transactions import Settlement, holding
from holdfast.testing.sweep.memory import Memory


class Joined:
    """A transaction of a sweep: what its body changed, set aside until it is committed."""

    connection: None = None

    def __init__(self, write: Callable[[Commit, Callable[[], None]], Awaitable[Verdict]], busy: asyncio.Lock) -> None:
        self._write = write
        self._busy = busy
        self.is_open: bool = True
        self.changes: Memory | None = None

    def session(self, kind: type[Any]) -> None:
        """None: there is no database."""

    def finish(self) -> None:
        """Does nothing: there is no session."""

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """Commits with the turn, if that is written: the changes are applied at the same moment."""
        assert turn is not None
        verdict = await self._write(turn, self._apply)
        if not isinstance(verdict, Unread):
            self.give_up()
        return verdict

    def _apply(self) -> None:
        if self.changes is not None:
            self.changes.restore()

    async def roll_back(self) -> None:
        """Drops the changes."""
        self.give_up()

    def give_up(self) -> None:
        """Drops the changes."""
        if self.is_open:
            self.is_open = False
            self._busy.release()

    def interrupt(self) -> None:
        """Does nothing: there is no server."""


def joined(declared: StepSpec, chosen: StepSpec, outside: Memory) -> StepSpec:
    """What runs for a step with `tx=True`: its fake, in a transaction."""
    if chosen.tx:
        return replace(chosen, function=_refused(declared), executor="async", tx=False)

    async def body(*args: Any, **kwargs: Any) -> Any:
        before = outside.now()
        try:
            value = await chosen.function(*args, **kwargs)
        except BaseException:
            outside.now().unlike(before).revert(before)
            raise
        after = outside.now().unlike(before)
        after.revert(before)
        transaction = holding.get()
        assert isinstance(transaction, Joined)
        transaction.changes = after
        return value

    return replace(chosen, function=body, tx=True)


def _refused(declared: StepSpec) -> Callable[..., Any]:
    async def body(*_: Any, **__: Any) -> NoReturn:
        raise InvalidInput(
            f"step {declared.name} is declared with tx=True, and a sweep has no database: put a fake in its place, "
            f"fakes=[Fake({declared.name}, …)]. What the fake keeps is written with the step's outcome, or not at all."
        )

    return body
