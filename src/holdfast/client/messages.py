"""What an operator does about a message that a run cannot read: it is given up, and its place in the inbox is kept.

A message that is changed, damaged or missing pauses its run (`engine.inbox`). Numbers are dense, so nothing is taken
out: another message is put in its place, which says that it was dropped. The end of a child is not lost: the child's
journal has it, and it is told again.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.client.access import Access
from holdfast.core import events as e
from holdfast.core.messages import ended
from holdfast.core.turn import decode_rows
from holdfast.errors import Conflict, RunFinished, RunNotFound
from holdfast.ports.inbox import Accepted, Ended, Message, Missing
from holdfast.ports.inbox import message as compose

if TYPE_CHECKING:
    from holdfast.ports.runs import RunRow

_END_OF = "end of "


async def drop_message(client: Access, run_id: str, number: int, reason: str) -> bool:
    """Drops the message with that number. True if nothing was lost: it was the end of a child, and is sent again."""
    row = await client.store.get(run_id)
    if row is None:
        raise RunNotFound(f"no run {run_id!r} in {client.store.url}")
    message = await _end_of_child(client, row, number)
    is_told_again = message is not None
    if message is None:
        event = e.MessageDropped(number=number, reason=reason, actor=client.actor)
        token = f"dropped {number} {secrets.token_hex(8)}"
        message = compose(run_id, token, "dropped", event)
    match await client.store.replace(message, number):
        case Accepted(is_repeat=False):
            return is_told_again
        case Accepted():
            raise Conflict(
                f"run {run_id}: no message {number} waits in its inbox. `holdfast verify --run {run_id}` names those "
                "that do not hold."
            )
        case Ended(status=status):
            raise RunFinished(
                f"run {run_id} has {status.value}: nothing in its inbox is read any more",
                run_id=run_id,
                status=status.value,
            )
        case Missing():
            raise RunNotFound(f"no run {run_id!r} in {client.store.url}")


async def _end_of_child(client: Access, row: RunRow, number: int) -> Message | None:
    """The message again, if it told of the end of a child whose journal still says how it ended."""
    store = client.store
    contents = await store.contents(row.no)
    there = [message for message in contents.messages if message.no == number] if contents is not None else []
    if len(there) != 1 or there[0].kind != "child" or not there[0].id.startswith(_END_OF):
        return None
    child = await store.get(there[0].id.removeprefix(_END_OF))
    if child is None or not child.status.is_terminal or child.parent != row.id:
        return None
    last = decode_rows((await store.read({child.no: 1}))[child.no])[-1]
    event = last.events[-1]
    if not isinstance(event, e.Completed | e.Failed | e.Cancelled):
        return None
    told = ended(child.id, event, last.at, child.parent_key)
    return compose(row.id, there[0].id, "child", told)
