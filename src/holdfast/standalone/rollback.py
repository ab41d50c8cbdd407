"""The rollback of a standalone run: undoes completed states in reverse, without stopping early.

The beginning of a rollback and each finished undo are separate rows, so after a crash undoing continues and repeats
nothing that is recorded. What fails, hangs or has no undo is collected with its output.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from holdfast.authoring.machine.state_bodies import call
from holdfast.core.machine_history import ROLLBACK, UNDONE, LogRow
from holdfast.core.retry import Retry
from holdfast.errors import HoldfastError, Orphan, StateFailed, StoreError
from holdfast.standalone.attempt import Exhausted, attempt, to_the_end
from holdfast.standalone.journey import Done, Journey

LONGEST = timedelta(seconds=30)
"""Default time limit of undoing after a run with a total timeout."""


class Told(msgspec.Struct, frozen=True):
    """Why a run rolls back, in the form that the log keeps."""

    state: str
    attempt: int
    type: str
    message: str
    path: list[str]


@dataclass(slots=True)
class Rollback:
    """The result of a rollback. All empty: it was clean."""

    failures: list[str] = field(default_factory=list[str])
    errors: list[BaseException] = field(default_factory=list[BaseException])
    orphans: list[Orphan] = field(default_factory=list[Orphan])

    def add(self, done: Done, output: bytes, error: BaseException) -> None:
        """Adds a state that was not undone."""
        self.failures.append(f"{done.label} (visit {done.visit}): {type(error).__name__}: {error}")
        self.errors.append(error)
        self.orphans.append(Orphan(done.label, output))


async def roll_back(one: Journey, told: Told, *, is_begun: bool = False) -> Rollback:
    """Undoes everything on the stack. Clears the log if that succeeded; keeps it if there was nothing to undo."""
    outcome = Rollback()
    if not one.stack and not is_begun:
        return outcome
    if not is_begun:
        with contextlib.suppress(StoreError):  # a store that is gone does not keep what was done from being undone
            await one.write(ROLLBACK, told.state, "", one.visit, msgspec.json.encode(told))
    until: float | None = None
    while one.stack:
        done = one.stack.pop()
        if done.is_written and until is None:
            until = _budget(one)
        await _undo(one, done, outcome, until if done.is_written else None)
    if not outcome.errors:
        await one.clear()
    return outcome


async def continue_rollback(one: Journey, row: LogRow) -> NoReturn:
    """Continues an interrupted rollback, then raises the run's original error."""
    from holdfast.standalone.end import conclude

    told = msgspec.json.decode(row.blob or b"{}", type=Told)
    text = (
        f"machine {one.model.name}, run {one.id}: state {told.state} had failed: {told.type}: {told.message} "
        f"(path: {' → '.join(told.path)})"
    )
    raised = StateFailed(
        text,
        machine=one.model.name,
        state=told.state,
        attempt=told.attempt,
        path=told.path,
        type=told.type,
        message=told.message,
    )
    task, _ = await to_the_end(roll_back(one, told, is_begun=True))
    conclude(raised, None, task.result())


def _budget(one: Journey) -> float | None:
    options = one.model.options
    limit = options.compensation_timeout
    if limit is None and options.timeout is not None:
        limit = min(options.timeout / 2, LONGEST)
    return None if limit is None else asyncio.get_running_loop().time() + limit.total_seconds()


async def _undo(one: Journey, done: Done, outcome: Rollback, until: float | None) -> None:
    node = one.model.node(done.label)
    undo = node.undo if node is not None else None
    output = _output(one, done)
    if undo is None or node is None:
        outcome.add(done, output, HoldfastError(f"state {done.label} has no undo in this machine"))
        return
    try:
        left, given = _values(one, done)
    except HoldfastError as error:
        outcome.add(done, output, error)
        return

    if until is not None and asyncio.get_running_loop().time() >= until:
        outcome.add(done, output, TimeoutError("the time for undoing has run out"))
        return

    async def body() -> Any:
        return await call(undo.function, left, given)

    def tell(hook: str, *facts: object) -> None:
        one.tell(hook, *facts, node=node)

    try:
        async with asyncio.timeout_at(until):
            await attempt(
                body,
                policy=undo.retry or one.model.options.retry or Retry(),
                limit=undo.timeout,
                breaker=None,
                raises=(),
                task=undo.function.__name__,
                tell=tell,
                pause=asyncio.sleep,
                begin=one.begin,
            )
    except TimeoutError:
        outcome.add(done, output, TimeoutError("the time for undoing has run out"))
    except Exhausted as spent:
        outcome.add(done, output, spent.error)
    else:
        with contextlib.suppress(StoreError):
            await one.write(UNDONE, done.label, undo.function.__name__, done.visit, None)


def _values(one: Journey, done: Done) -> tuple[Any, Any]:
    stored = done.stored
    if stored is None:
        return done.left, done.given
    return one.model.states.untag(stored.left), one.model.states.decode(stored.state, stored.given)


def _output(one: Journey, done: Done) -> bytes:
    if done.stored is not None:
        return done.stored.left
    try:
        return one.model.states.tag(done.left)
    except HoldfastError:
        return repr(done.left).encode(errors="replace")
