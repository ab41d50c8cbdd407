"""What stands where a value was redacted, and the event that says so."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from holdfast.core.event import Event, Instant
from holdfast.errors import RunRedacted

MARK: Final = "⟦redacted⟧"
"""Stands in the place of every value that was redacted. No value of a user should contain it."""

_BYTES: Final = MARK.encode()

Data = TypeVar("Data", bytes, msgspec.Raw)


class Redacted(Event, frozen=True, tag="redacted", kw_only=True):
    """A person removed values from this ended run; `paths` name them. Every row was written anew without them, so the
    chain of checksums is a new one too. It stands in the last row, before the end."""

    paths: tuple[str, ...]
    at: Instant
    reason: str = ""
    actor: str = ""


def is_redacted(data: bytes | msgspec.Raw) -> bool:
    """Whether something was removed from a payload."""
    return bytes(data).find(_BYTES) >= 0  # `in` takes longer: see `references.MARK`


def whole(data: Data, run: str, what: str) -> Data:
    """The payload, if nothing was removed from it. Raises `RunRedacted`: a mark must not be taken for a value."""
    if is_redacted(data):
        raise redacted(run, what)
    return data


def redacted(run: str, what: str) -> RunRedacted:
    """The error of one who asks for a value that was redacted."""
    said = f"run {run}: {what} was redacted, so there is nothing to return. What is left of it: holdfast show {run}"
    return RunRedacted(said, run_id=run)
