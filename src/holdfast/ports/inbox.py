"""The inbox: how everyone but the lease holder sends something to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.checksums import message_checksum
from holdfast.core.message_ids import other_use
from holdfast.core.messages import encode_event
from holdfast.core.references import references_of
from holdfast.core.status import Status
from holdfast.ports.blobs import BlobData

Kind: TypeAlias = Literal[
    "signal", "topic", "update", "refused", "child", "cancel", "pause", "undelivered", "dropped", "input"
]
"""What a message is. "refused": it was an update, and its sender has been told why it is not asked."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to one run. `id` is the sender's: the same id to the same run counts once. `body`: an encoded event.

    `references`: the blobs that the body refers to.

    `reply`: an encoded `SendSettled`. If the message comes with a turn and cannot be delivered, or is another one than
    the run was sent under its id (`core.message_ids`), the run whose turn it is gets it, with why
    (`core.messages.with_status`) and the id `core.messages.undelivered_id`.

    `asks`: for an update, the hash of its value. Its question is stored with the message (`ports.updates`).
    """

    run: str
    id: str
    kind: Kind
    body: bytes
    blobs: tuple[tuple[str, BlobData], ...] = ()
    references: tuple[str, ...] = ()
    reply: bytes = b""
    asks: bytes = b""

    @property
    def checksum(self) -> bytes:
        """What is stored with it."""
        return message_checksum(self.run, self.id, self.kind, self.body)


class Publication(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to every run that currently watches a topic. `body` is an encoded event without the key of a wait, and
    `references` are the blobs that it refers to."""

    topic: str
    id: str
    body: bytes
    blobs: tuple[tuple[str, BlobData], ...] = ()
    references: tuple[str, ...] = ()


def message(
    run: str,
    id: str,
    kind: Kind,
    event: e.AnyEvent,
    *,
    blobs: tuple[tuple[str, BlobData], ...] = (),
    reply: bytes = b"",
    asks: bytes = b"",
) -> Message:
    """The message that carries this event."""
    body, references = encode_event(event), references_of((event,))
    return Message(run=run, id=id, kind=kind, body=body, blobs=blobs, references=references, reply=reply, asks=asks)


def publication(
    topic: str, id: str, event: e.TopicReceived, *, blobs: tuple[tuple[str, BlobData], ...] = ()
) -> Publication:
    """The publication that carries this event."""
    body, references = encode_event(event), references_of((event,))
    return Publication(topic=topic, id=id, body=body, blobs=blobs, references=references)


def kept_message(run: str, id: str, kind: Kind, body: bytes, checksum: bytes) -> Message | None:
    """A message as it is stored; None if its body was removed or is damaged. Who resends it must not fail for that."""
    found = Message(run=run, id=id, kind=kind, body=body)
    return found if body and checksum in (b"", found.checksum) else None


class Unconsumed(msgspec.Struct, frozen=True, gc=False):
    """A message in the inbox as it is stored. Numbers have no gaps and follow the order of arrival. The reader checks
    the checksum (empty: the message is older than checksums)."""

    no: int
    id: str
    kind: Kind
    body: bytes
    checksum: bytes = b""


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The message is durable (also when the same id was accepted before)."""

    is_repeat: bool = False


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The run has ended: the message was refused."""

    status: Status


class Missing(msgspec.Struct, frozen=True, gc=False):
    """There is no such run."""


Delivery: TypeAlias = Accepted | Ended | Missing


def why_lost(message: Message, delivery: Delivery, kept: Callable[[], Message | None]) -> str:
    """Why a message of a turn did not arrive, as its sender is told; empty if it did, now or before. `kept`: what its
    run was sent under its id."""
    match delivery:
        case Ended(status=status):
            return status.value
        case Missing():
            return "missing"
        case Accepted(is_repeat=True):
            before = kept()
            return "conflict" if before is not None and other_use(before.body, message.body) else ""
        case Accepted():
            return ""


class Watcher(msgspec.Struct, frozen=True, gc=False):
    """A run that waits on a topic."""

    run: str
    key: str
    since: datetime


class Inbox(Protocol):
    """Messages to runs: accepted durably, read by the holder, consumed by its commits."""

    async def send(self, message: Message) -> Delivery:
        """Inserts the message with its checksum and, if it asks something, its question; bumps the run's `inbox_last`
        and lowers its `available_at`; in one transaction. An id that was sent before is a repeat, even if the run has
        ended since."""
        ...

    async def replace(self, message: Message, no: int) -> Delivery:
        """Replaces the message with this number, which is unreadable or missing, and wakes the run, in one transaction.
        Anything stored under the number is removed. If the number was not assigned yet, or its message was taken in,
        nothing changes: `Accepted(is_repeat=True)`. If the run has read beyond the number, the message is stored as one
        that was taken in.
        """
        ...

    async def publish(self, publication: Publication) -> Sequence[str]:
        """Sends to every current watcher of the topic, in one transaction; returns their run ids.

        The body is stored with the watcher's key filled in (`TopicReceived.key`), and the checksum is of that.
        """
        ...

    async def sent(self, run: str, id: str) -> Message | None:
        """The message that this run was sent under this id, also when a turn has taken it in. None if there is none, or
        it is no longer kept (`kept_message`): compaction removes bodies. Without blobs and references."""
        ...

    async def published(self, topic: str, id: str) -> Message | None:
        """What a run that waits on the topic now was sent under this id of a publication; one of them if it is several.
        None as for `sent`."""
        ...

    async def watchers(self, topic: str) -> Sequence[Watcher]:
        """The runs that wait on the topic now."""
        ...

    async def unread(self, runs: Mapping[int, int]) -> Mapping[int, list[Unconsumed]]:
        """Unread messages of several runs: run number → highest number already read. By number, without consumed
        ones."""
        ...
