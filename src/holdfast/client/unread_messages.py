"""Operators' verbs for messages that a run has not taken: list them, drop one, replace the value of a signal.

An unread message is in the inbox and has a number. Numbers have no gaps, so nothing is removed: another message takes
its place and says what was done. A signal that no wait has taken yet may be in the journal already (`Run.buffered`):
then a row is appended that takes it away or replaces it, while the run is paused. The end of a child is not lost when
it is dropped: the child's journal has it, and it is sent again.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec

from holdfast.authoring.handle import StoredMessage
from holdfast.client import operator_acts
from holdfast.client.access import Access
from holdfast.core import events as e
from holdfast.core.acceptance import refusal, update_refusal
from holdfast.core.checksums import message_checksum
from holdfast.core.commands import carry
from holdfast.core.doing import one_line
from holdfast.core.ids import check_text
from holdfast.core.messages import END_OF, decode_event, ended
from holdfast.core.payload import MAX_INLINE, Shape
from holdfast.core.status import Status
from holdfast.core.turn import decode_rows
from holdfast.errors import Conflict, CorruptJournal, InvalidInput, RunFinished, RunNotFound
from holdfast.ports.inbox import Accepted, Ended, Message, Missing, Unconsumed
from holdfast.ports.inbox import message as compose
from holdfast.turn.source import load

if TYPE_CHECKING:
    from holdfast.ports.runs import RunRow

_SHOWN = 500
_any = Shape[object](object, what="the value")


# -- listing -----------------------------------------------------------------------------------------------------------


async def stored(client: Access, row: RunRow) -> list[StoredMessage]:
    """Signals in the journal that no wait has taken, then unread messages, oldest first."""
    signals = await _kept(client, row)
    unread = [(message, _decoded(row, message)) for message in await _unread(client, row)]
    redaction = await client.hidden.of(row, [event for _, event in unread if not isinstance(event, CorruptJournal)])
    kept = [_shown(client, row, redaction.event(signal)) for signal in signals]
    for message, event in unread:
        if isinstance(event, CorruptJournal):
            kept.append(StoredMessage(number=message.no, id=message.id, kind=message.kind, problem=str(event)))
        else:
            kept.append(_shown(client, row, redaction.event(event), message))
    return kept


def _decoded(row: RunRow, message: Unconsumed) -> e.AnyEvent | CorruptJournal:
    try:
        return _checked(row.id, message)
    except CorruptJournal as error:
        return error


def _shown(client: Access, row: RunRow, event: e.AnyEvent, message: Unconsumed | None = None) -> StoredMessage:
    name = sender = value = problem = ""
    if isinstance(event, e.Carrier):
        value = f"blob {event.blob}" if event.blob else bytes(event.value).decode(errors="replace")
    if isinstance(event, e.SignalReceived | e.TopicReceived):
        name = event.name
    if isinstance(event, e.SignalReceived):
        sender = event.sender
        spec = None if event.blob else client.spec_of(row)
        why = update_refusal if isinstance(event, e.UpdateReceived) else refusal
        problem = (why(spec, name, bytes(event.value)) if spec is not None else None) or ""
    return StoredMessage(
        number=message.no if message is not None else 0,
        id=message.id if message is not None else event.message if isinstance(event, e.SignalReceived) else "",
        kind=message.kind if message is not None else "update" if isinstance(event, e.UpdateReceived) else "signal",
        name=name,
        sender=sender,
        value=one_line(value, _SHOWN),
        problem=problem,
    )


async def _unread(client: Access, row: RunRow) -> list[Unconsumed]:
    return list((await client.store.unread({row.no: row.inbox_read})).get(row.no, ()))


async def _kept(client: Access, row: RunRow) -> list[e.SignalReceived]:
    if row.status.is_terminal:
        return []
    return list((await load(client.store, row.no, row.id)).run.buffered.values())


def _checked(run: str, message: Unconsumed) -> e.AnyEvent:
    if message.checksum and message.checksum != message_checksum(run, message.id, message.kind, message.body):
        raise CorruptJournal("it was changed or damaged: its checksum does not match")
    return decode_event(message.body)


# -- finding one -------------------------------------------------------------------------------------------------------


async def _find(client: Access, row: RunRow, wanted: int | str) -> int | e.SignalReceived:
    """The number of an unread message, or the signal in the journal."""
    if not isinstance(wanted, str):
        return wanted
    numbers = [message.no for message in await _unread(client, row) if message.id == wanted]
    if numbers:
        return numbers[0]
    for signal in await _kept(client, row):
        if signal.message == wanted:
            return signal
    raise Conflict(
        f"run {row.id}: no message {wanted!r} is waiting. `holdfast messages {row.id}` lists those that are; what a "
        "wait has taken cannot be changed."
    )


def _check_paused(row: RunRow, verb: str) -> None:
    if row.status is not Status.PAUSED:
        raise Conflict(
            f"run {row.id} is {row.status.value}: a worker may be taking the message right now. Pause the run first: "
            f"holdfast pause {row.id}; then {verb} the message, and resume it."
        )


# -- dropping ----------------------------------------------------------------------------------------------------------


async def drop(client: Access, row: RunRow, wanted: int | str, reason: str) -> bool:
    """Drops that message. Returns True if nothing was lost: it was the end of a child, and is sent again."""
    _check_open(row)
    check_text(reason, "reason")
    found = await _find(client, row, wanted)
    if isinstance(found, e.SignalReceived):
        _check_paused(row, "drop")
        asked = isinstance(found, e.UpdateReceived)
        dropped = e.MessageDropped(
            message=found.message, name=found.name, reason=reason, actor=client.actor, asked=asked
        )
        await _append(client, row, dropped, f"signal {found.name} was dropped")
        return False
    message = await _end_of_child(client, row, found)
    is_told_again = message is not None
    if message is None:
        updates = [one.id for one in await _unread(client, row) if one.no == found and one.kind == "update"]
        event = e.MessageDropped(
            number=found,
            reason=reason,
            actor=client.actor,
            message=updates[0] if updates else "",
            asked=bool(updates),
        )
        token = f"dropped {found} {secrets.token_hex(8)}"
        message = compose(row.id, token, "dropped", event)
    await _put(client, message, found)
    return is_told_again


async def _end_of_child(client: Access, row: RunRow, number: int) -> Message | None:
    """The message again, if it reported the end of a child whose journal still says how it ended."""
    store = client.store
    contents = await store.contents(row.no)
    there = [message for message in contents.messages if message.no == number] if contents is not None else []
    if len(there) != 1 or there[0].kind != "child" or not there[0].id.startswith(END_OF):
        return None
    child = await store.get(there[0].id.removeprefix(END_OF))
    if child is None or not child.status.is_terminal or child.parent != row.id:
        return None
    last = decode_rows((await store.read({child.no: 1}))[child.no])[-1]
    event = last.events[-1]
    if not isinstance(event, e.Completed | e.Failed | e.Cancelled):
        return None
    told = ended(child.id, event, last.at, child.parent_key)
    return compose(row.id, there[0].id, "child", told)


# -- replacing ---------------------------------------------------------------------------------------------------------


async def replace(client: Access, row: RunRow, wanted: int | str, value: object, reason: str) -> None:
    """Gives a signal another value. It keeps its id, name, sender and place."""
    _check_open(row)
    check_text(reason, "reason")
    _check_paused(row, "replace")
    found = await _find(client, row, wanted)
    data = _any.encode(value)
    if len(data) > MAX_INLINE:
        limit = f"the value has {len(data):,} bytes; at most {MAX_INLINE:,} are allowed"
        raise InvalidInput(f"{limit}: drop the message and send another")
    if isinstance(found, e.SignalReceived):
        event = _replaced(client, row, found, data, reason)
        await _append(client, row, event, f"signal {event.name} was replaced")
        return
    there = next((message for message in await _unread(client, row) if message.no == found), None)
    try:
        stored_event = _checked(row.id, there) if there is not None else None
    except CorruptJournal:
        stored_event = None
    if there is None or not isinstance(stored_event, e.SignalReceived):
        raise Conflict(
            f"run {row.id}: message {found} is not a signal that can be read, so it cannot be replaced. Drop it: "
            f"holdfast messages drop {row.id} {found}; and send the signal again."
        )
    event = _replaced(client, row, stored_event, data, reason)
    await _put(client, compose(row.id, there.id, there.kind, event), found)


def _replaced(client: Access, row: RunRow, old: e.SignalReceived, data: bytes, reason: str) -> e.SignalReceived:
    spec = client.spec_of(row)
    objects = update_refusal if isinstance(old, e.UpdateReceived) else refusal
    why = objects(spec, old.name, data) if spec is not None else None
    if why is not None:
        raise InvalidInput(f"run {row.id}: {why} Nothing was changed.")
    value, blob, refs = carry(data, {})
    return msgspec.structs.replace(old, value=value, blob=blob, refs=refs, replaced_by=client.actor, reason=reason)


# -- writing -----------------------------------------------------------------------------------------------------------


def _check_open(row: RunRow) -> None:
    if row.status.is_terminal:
        raise _finished(row.id, row.status)


def _finished(run: str, status: Status) -> RunFinished:
    return RunFinished(f"run {run} has {status.value}: its inbox is no longer read", run_id=run, status=status.value)


async def _append(client: Access, row: RunRow, event: e.MessageDropped | e.SignalReceived, said: str) -> None:
    """Appends to the journal of a paused run. It stays paused, and says what was done."""
    paused = e.Paused(reason="operator", detail=f"{said}: holdfast resume {row.id}", actor=client.actor)
    if not await operator_acts.append(client, row.id, [event, paused], only=Status.PAUSED):
        raise Conflict(f"run {row.id} was resumed meanwhile: nothing was changed. Pause it, and try again.")


async def _put(client: Access, message: Message, number: int) -> None:
    """Replaces the message with that number in the inbox."""
    match await client.store.replace(message, number):
        case Accepted(is_repeat=False):
            return
        case Accepted():
            raise Conflict(
                f"run {message.run}: no message {number} waits in its inbox. `holdfast messages {message.run}` lists "
                "those that do."
            )
        case Ended(status=status):
            raise _finished(message.run, status)
        case Missing():
            raise RunNotFound(f"no run {message.run!r} in {client.store.url}")
