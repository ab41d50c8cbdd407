"""What a store keeps of one run besides its row and its journal, as it is stored, for verification."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.core.snapshot import Snapshot
from holdfast.ports.parts import StoredSpan
from holdfast.ports.updates import StoredAnswer


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """A row of an inbox. `consumed`: the ordinal of the turn that took it in; 0 if none did."""

    no: int
    id: str
    kind: str
    body: bytes
    consumed: int
    checksum: bytes


class StoredValue(msgspec.Struct, frozen=True, gc=False):
    """A value that the run exposes."""

    name: str
    value: bytes
    blob: str
    checksum: bytes


class Contents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything, at one moment. `is_offered`: whether claims consider the run. `problems`: inconsistencies by the
    rules of this kind of store.

    `watches`: topic, key, since; `adoptions`: run, key, id of the message; `held`: of the blobs it refers to, what they
    refer to.
    """

    keep: timedelta | None
    is_offered: bool
    messages: list[StoredMessage]
    shown: list[StoredValue]
    watches: list[tuple[str, str, int]]
    adoptions: list[tuple[str, str, str]]
    references: frozenset[str]
    held: dict[str, frozenset[str]]
    snapshot: Snapshot | None
    answers: list[StoredAnswer] = []
    spans: list[tuple[str, StoredSpan]] = []
    """The outcomes of attempts that sent parts, by stream."""
    problems: tuple[str, ...] = ()
