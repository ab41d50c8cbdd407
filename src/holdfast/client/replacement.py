"""A start takes the unique value of an open run: `if_exists="replace"` cancels that, `debounce=` begins after it.

The store makes the new run and cancels the old one in one transaction, if the old one stands as it was seen here; if
not, it is looked at again. The new run names those that must end before it begins: the old one, unless that has not
begun and is not held, so that its cancel is read before any of its code runs. Then it names those that the old one
itself had to wait for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.client import operator_acts
from holdfast.client.access import Access
from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.status import Status
from holdfast.core.trace import trace_now
from holdfast.core.turn import decode_rows
from holdfast.errors import Conflict
from holdfast.ports.inbox import Message
from holdfast.ports.runs import Creation, Existing, Made, Replaced, RunRow
from holdfast.upkeep import imposition

TRIES = 1000
"""Each try that fails means that another start has taken the value, or that a run has begun or ended."""


async def replace(
    client: Access,
    met: Existing,
    new_id: str,
    create: Callable[[Replaced, tuple[str, ...]], Awaitable[Creation]],
    *,
    is_joined: bool,
) -> Creation:
    """Creates the run in place of the one it met; it begins when those before it have ended. `is_joined`: inside a
    caller's transaction, which may still roll back."""
    for _ in range(TRIES):
        holder = met.run
        seen = Replaced(run=holder.id, is_idle=holder.is_idle, cancel=_cancel(client, holder.id, new_id))
        made = await create(seen, await predecessors(client, holder))
        if isinstance(made, Made) and not is_joined:
            await _settle(client, holder, new_id)
        if not isinstance(made, Existing) or made.by != "unique":
            return made
        met = made
    raise _beaten(met)


async def follow(met: Existing, create: Callable[[Replaced, tuple[str, ...]], Awaitable[Creation]]) -> Creation:
    """Makes the run that begins after the one that was met, which keeps running; or joins one that others made so."""
    for _ in range(TRIES):
        made = await create(Replaced(run=met.run.id, is_idle=met.run.is_idle), (met.run.id,))
        if not isinstance(made, Existing) or made.by != "unique":
            return made
        met = made
    raise _beaten(met)


def _beaten(met: Existing) -> Conflict:
    return Conflict(
        f"run {met.run.id} has the value, and changed each of the {TRIES:,} times a run was to replace it. Nothing was "
        "started: try again.",
        run=met.run.id,
    )


async def predecessors(client: Access, holder: RunRow) -> tuple[str, ...]:
    """Which runs must end before one that takes the value of this run begins."""
    found = [] if holder.is_idle else [holder.id]
    if holder.started_at is None:
        for turn in decode_rows(await client.store.history(holder.id, limit=1)):
            for name in (name for event in turn.events if isinstance(event, e.Started) for name in event.after):
                before = await client.store.get(name)
                if before is not None and not before.status.is_terminal:
                    found.append(name)
    return tuple(found)


def _cancel(client: Access, holder: str, new_id: str) -> Message:
    name, trace = f"replaced by {new_id}", trace_now(client.current_trace)
    event = e.CancelRequested(message=name, reason=_reason(new_id), actor=client.actor, trace=trace)
    return Message(run=holder, id=name, kind="cancel", body=encode_event(event))


def _reason(new_id: str) -> str:
    return f"replaced by run {new_id}"


async def _settle(client: Access, replaced: RunRow, new_id: str) -> None:
    """A run that no worker need be asked about ends now. Its cancel is durable even if this fails."""
    if replaced.status is Status.PENDING and replaced.is_idle:
        end: list[e.AnyEvent] = [e.Cancelled(reason=_reason(new_id), actor=client.actor)]
        await imposition.impose(client.store, replaced.id, lambda _: end, steal=False, only=Status.PENDING)
    elif operator_acts.is_stuck(replaced):
        await operator_acts.resume(client, replaced.id)
