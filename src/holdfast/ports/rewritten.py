"""What stands in a store in the place of all that is kept of a run, after something was taken out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.turn import Row
from holdfast.ports.blobs import BlobData
from holdfast.ports.contents import StoredMessage, StoredValue
from holdfast.ports.parts import StoredParts
from holdfast.ports.updates import StoredAnswer

Source: TypeAlias = tuple[Literal["row", "message", "value", "answer"], int, str]
"""A part of a run that refers to blobs: the row of an ordinal, the message of a number, the value of a name, or the
answer to a message."""


class Rewritten(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An ended run, with changed contents under the same names and numbers.

    `rows` has one row for each that is stored; the first may be a stand-in. `after` is the checksum of the newest row
    as it was read, `inbox_last` the number of the last message. The others name only what changes. `references` says
    what each part refers to; the run refers to nothing else. `segments` are the blobs of a stand-in.
    """

    no: int
    after: bytes
    inbox_last: int
    rows: Sequence[Row]
    attributes: Mapping[str, str]
    messages: Sequence[StoredMessage]
    shown: Sequence[StoredValue]
    answers: Sequence[StoredAnswer]
    parts: Sequence[tuple[str, StoredParts]]
    references: Mapping[Source, tuple[str, ...]]
    blobs: Mapping[str, BlobData]
    segments: Mapping[str, BlobData]
