"""Which blobs a payload and a fact refer to.

A reference is said once, where a payload is made: the payload is plain there, and whatever is done to it later
(encryption, say) does not hide what it refers to. From then on it is a field of the fact that carries the payload, and
stores are told of it with the row, message, value, snapshot or blob. Nothing is ever looked for in what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

import msgspec

from holdfast.core import events as e

__all__ = ["MARK", "BlobRef", "ReferringBytes", "references_in", "references_of", "referred_by", "segment_references"]

MARK = b'"size'
"""In every payload with a `BlobRef`, and in few others."""

_REF = re.compile(
    rb"\{"
    rb'\\*"name\\*":\\*"([0-9a-f]{64})\\*",\\*"size\\*":[0-9]+,\\*"kind\\*":\\*"(?:bytes|json)\\*"\}'
)
"""A `BlobRef` as it is encoded, also within JSON that is a text in other JSON: its quotes are escaped then."""


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
    """The blobs whose `BlobRef` is in this payload, which is plain: for its maker, and nobody else."""
    if MARK not in payload:  # most payloads
        return ()
    return tuple(dict.fromkeys(name.decode() for name in _REF.findall(payload)))


def referred_by(data: bytes) -> tuple[str, ...]:
    """What the bytes of a blob refer to."""
    return data.names if isinstance(data, ReferringBytes) else ()


def references_of(events: Iterable[e.AnyEvent]) -> tuple[str, ...]:
    """Every blob that these facts refer to, each once."""
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event, e.Carrier):
            if event.blob:
                found[event.blob] = None
            if event.refs:
                found.update(dict.fromkeys(event.refs))
            if type(event) is e.Started and event.style == "flow" and event.code:
                found[event.code] = None
        elif isinstance(event, e.Adopted):
            found.update(dict.fromkeys(references_of(event.facts)))
        elif isinstance(event, e.Compacted):
            found.update(dict.fromkeys(segment_references(event.segments)))
    return tuple(found)


def segment_references(segments: Iterable[e.Segment]) -> tuple[str, ...]:
    """The blobs that hold packed turns, and those that the turns refer to."""
    return tuple(dict.fromkeys(name for segment in segments for name in (segment.blob, *segment.names)))
