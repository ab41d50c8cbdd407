"""S12 between runs: a signal that a turn sends arrives, or its sender is told: one of the two, with that very turn."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.message_ids import other_use
from holdfast.core.messages import decode_event, undelivered_id
from holdfast.core.turn import decode_row
from holdfast.ports.inbox import Message
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


async def what_is_wrong(store: Store, message: Message, target: RunRow | None, sender: RunRow) -> str:
    """Empty if all is well. Inboxes first; what has left them since is in the journals."""
    has_arrived = target is not None and await _has(store, target, message)
    is_told = await _is_told(store, sender, message.reply)
    if has_arrived is is_told:
        return f"signal {message.id} to {message.run} " + ("arrived, and is told as lost" if is_told else "is lost")
    return ""


async def _has(store: Store, run: RunRow, message: Message) -> bool:
    """Whether the run was sent this very message, or what it was sent under the id is no longer kept."""
    kept = await store.sent(run.id, message.id)
    if kept is not None:
        return not other_use(kept.body, message.body)
    if await _is_unread(store, run, message.id):
        return True
    events = await _events(store, run)
    return any(isinstance(event, e.SignalReceived) and event.message == message.id for event in events)


async def _is_told(store: Store, run: RunRow, reply: bytes) -> bool:
    """Whether the run is told that what it sent did not arrive: by a message that it has not read, or in its
    journal."""
    if await _is_unread(store, run, undelivered_id(reply)):
        return True
    sent = decode_event(reply)
    assert isinstance(sent, e.SendSettled)
    lost = [event for event in await _events(store, run) if isinstance(event, e.SendSettled)]
    return any((event.ordinal, event.key) == (sent.ordinal, sent.key) and event.status != "delivered" for event in lost)


async def _is_unread(store: Store, run: RunRow, message: str) -> bool:
    return any(one.id == message for one in (await store.unread({run.no: 0})).get(run.no, []))


async def _events(store: Store, run: RunRow) -> list[e.AnyEvent]:
    return [event for row in await store.history(run.id) for event in decode_row(row).events]
