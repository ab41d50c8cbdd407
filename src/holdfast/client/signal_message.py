"""Signals from outside: the message of one, and how it is delivered, also in a caller's transaction."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import msgspec

from holdfast.authoring.script.channels import Channel
from holdfast.client.repeated_message import check_repeat
from holdfast.client.start_options import StartOptions
from holdfast.core import events as e
from holdfast.core.acceptance import refusal
from holdfast.core.commands import carry
from holdfast.core.message_ids import check_message_id
from holdfast.core.specs import WorkflowSpec
from holdfast.core.trace import trace_now
from holdfast.errors import InvalidInput, NotAllowedHere, RunFinished, RunNotFound
from holdfast.ports.inbox import Accepted, Ended, Message, Missing
from holdfast.ports.inbox import message as compose
from holdfast.ports.runs import NewRun

if TYPE_CHECKING:
    from holdfast.client.access import Access

T = TypeVar("T")


def signal_message(
    client: Access, run: str, channel: Channel[T], value: T, id: str | None = None
) -> tuple[Message, bytes]:
    """The message of a signal, and its value as JSON."""
    if not _is_channel(channel):
        raise InvalidInput(
            f"run.signal({channel!r:.80}, …): a Signal is needed, such as Signal[bool]('approved'). "
            "An Update is asked with run.update(…)."
        )
    if channel.kind != "signal":
        raise NotAllowedHere(f"{channel.name} is a Topic: publish it with app.publish(…)")
    blobs: dict[str, bytes] = {}
    data = channel.encode(value)
    raw, blob, refs = carry(data, blobs)
    chosen = check_message_id(id) if id is not None else secrets.token_hex(12)
    event = e.SignalReceived(
        message=chosen,
        name=channel.name,
        sender=client.actor,
        value=raw,
        blob=blob,
        refs=refs,
        trace=trace_now(client.current_trace),
    )
    return compose(run, chosen, "signal", event, blobs=tuple(blobs.items())), data


def with_signal(client: Access, new: NewRun, spec: WorkflowSpec, how: StartOptions) -> tuple[NewRun, Message]:
    """The new run with the signal in its inbox, and the message for a run that is there already. Raises `InvalidInput`
    for a signal that the workflow does not take."""
    given = how.signal
    if how.debounce is not None or how.collects is not None:
        raise InvalidInput("signal= does not go with debounce=, which makes one run of many starts. Signal that run")
    if not _is_pair(given):
        text = (
            f"signal={given!r:.80}: give a signal and its value, (approved, True), with an id (approved, True, 'm-1')"
        )
        raise InvalidInput(text)
    channel, value, *ids = given
    if not _is_channel(channel):
        raise InvalidInput(f"signal=({channel!r:.60}, …): begin with a signal such as Signal[bool]('approved')")
    message, data = signal_message(client, new.row.run, channel, value, *ids)
    name = channel.name
    why = refusal(spec, name, data)
    if why is not None:
        raise InvalidInput(f"signal= of a start of {spec.label}: {why} Nothing was started.")
    brought = msgspec.structs.replace(message, blobs=())
    return msgspec.structs.replace(new, blobs=(*new.blobs, *message.blobs), message=brought), message


async def deliver(client: Access, message: Message, what: str, connection: object | None = None) -> None:
    """Puts a message into the inbox of its run, in the caller's transaction if there is one."""
    store, run = client.store, message.run
    match await (store.send(message) if connection is None else store.send_within(connection, message)):
        case Accepted(is_repeat=False):
            return
        case Accepted():
            within = connection is not None
            kept = await (store.sent_within(connection, run, message.id) if within else store.sent(run, message.id))
            check_repeat(kept, message.id, message.body, what)
        case Ended(status=status):
            text = f"run {run} has {status.value}: {what} was refused"
            raise RunFinished(text, run_id=run, status=status.value)
        case Missing():
            raise RunNotFound(f"no run {run!r} in {store.url}: {what} was refused")


def _is_pair(given: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(given, tuple) and 2 <= len(given) <= 3  # pyright: ignore[reportUnknownArgumentType]


def _is_channel(given: object) -> TypeGuard[Channel[Any]]:
    return isinstance(given, Channel)
