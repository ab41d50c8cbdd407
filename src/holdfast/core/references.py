"""Which blobs a payload and an event refer to.

References are collected once, where a payload is made and still plain, so that later changes to it, such as encryption,
do not hide them. From then on they are a field of the event that carries the payload, and stores get them with the row,
message, value, snapshot or blob. Stored data is never searched for references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from holdfast.core import events as e

__all__ = [
    "MARK",
    "BlobRef",
    "ReferringBytes",
    "names_of",
    "payload_of",
    "references_in",
    "references_of",
    "referred_by",
    "segment_references",
]

MARK = b'"size'
"""Bytes that every payload with a `BlobRef` contains, and few others. `find` looks for them: `in` first tries to read
the mark as a number, which takes ten times as long."""

_REF = re.compile(
    rb"\{"
    rb'\\*"name\\*":\\*"([0-9a-f]{64})\\*",\\*"size\\*":[0-9]+,\\*"kind\\*":\\*"(?:bytes|json)\\*"\}'
)
"""An encoded `BlobRef`, also within JSON text inside other JSON, where its quotes are escaped."""


class BlobRef(msgspec.Struct, frozen=True):
    """A stored blob: give it to other steps instead of the data."""

    name: str
    size: int
    kind: str


class ReferringBytes(bytes):
    """The bytes of a blob that refers to other blobs, which are kept as long as it is."""

    names: tuple[str, ...]

    def __new__(cls, data: bytes, names: Iterable[str]) -> Self:
        made = super().__new__(cls, data)
        made.names = tuple(names)
        return made


def references_in(payload: bytes) -> tuple[str, ...]:
    """The blobs whose `BlobRef` is in this plain payload. Only for the maker of the payload."""
    if payload.find(MARK) < 0:  # most payloads
        return ()
    return tuple(dict.fromkeys(name.decode() for name in _REF.findall(payload)))


def referred_by(data: bytes) -> tuple[str, ...]:
    """The references of the bytes of a blob."""
    return data.names if isinstance(data, ReferringBytes) else ()


def references_of(events: Iterable[e.AnyEvent]) -> tuple[str, ...]:
    """Every blob that these facts refer to, each once."""
    found: dict[str, None] = {}
    event: Any
    for event in events:
        if type(event) in e.CARRIERS:
            if event.blob:
                found[event.blob] = None
            if event.refs:
                found.update(dict.fromkeys(event.refs))
            if type(event) is e.StepScheduled and event.pieces:
                found.update(dict.fromkeys(event.pieces))
            elif type(event) is e.Started and event.style == "flow" and event.code:
                found[event.code] = None
        elif isinstance(event, e.Adopted):
            found.update(dict.fromkeys(references_of(event.facts)))
        elif isinstance(event, e.Compacted):
            found.update(dict.fromkeys(segment_references(event.segments)))
    return tuple(found)


def segment_references(segments: Iterable[e.Segment]) -> tuple[str, ...]:
    """The blobs that hold packed turns, and those that the turns refer to."""
    return tuple(dict.fromkeys(name for segment in segments for name in (segment.blob, *segment.names)))


def names_of(event: e.Carrier) -> tuple[str, ...]:
    """The blobs that are the payload of an event, in order; none if it is in the event."""
    if isinstance(event, e.StepScheduled) and event.pieces:
        return event.pieces
    return (event.blob,) if event.blob else ()


def payload_of(event: e.Carrier, blobs: Mapping[str, bytes]) -> bytes:
    """The payload of an event; `blobs` has those it names."""
    names = names_of(event)
    return b"".join(blobs[name] for name in names) if names else bytes(event.value)
