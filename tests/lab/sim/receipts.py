"""S12 between runs: a signal that a turn sends arrives, or its sender is told: one of the two, with that very turn."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.messages import undelivered_id
from holdfast.core.turn import decode_row
from holdfast.ports.inbox import Message
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


async def what_is_wrong(store: Store, message: Message, target: RunRow | None, sender: RunRow) -> str:
    """Empty if all is well. Inboxes first; what has left them since is in the journals."""
    has_arrived = target is not None and await _has(store, target, message.id, message.id)
    is_told = await _has(store, sender, undelivered_id(message.id), message.id)
    if has_arrived is is_told:
        return f"signal {message.id} to {message.run} " + ("arrived, and is told as lost" if is_told else "is lost")
    return ""


async def _has(store: Store, run: RunRow, letter: str, message: str) -> bool:
    """Whether the run has the letter, or its journal what that said of the message."""
    unread = (await store.unread({run.no: 0})).get(run.no, [])
    if any(one.id == letter for one in unread):
        return True
    events = [event for row in await store.history(run.id) for event in decode_row(row).events]
    if letter == message:
        return any(isinstance(event, e.SignalReceived) and event.message == message for event in events)
    settled = [event for event in events if isinstance(event, e.SendSettled) and event.status != "delivered"]
    return any(f"{run.id}:{event.ordinal}:{event.key}" == message for event in settled)
