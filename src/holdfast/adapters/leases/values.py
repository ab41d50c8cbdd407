"""What managers keep under their keys, and for how long. Pure."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable

S = TypeVar("S", bound=msgspec.Struct)

LEAST_TTL: Final = 2
"""Seconds. Managers count in whole ones, and look for what has run out once or twice a second."""


class Heard(msgspec.Struct, frozen=True):
    """The value of a worker's heartbeat: when by the worker's clock (None: it asked for runs before it sent one), and
    the lease's length."""

    seen_at: datetime | None
    ttl: float


def whole_seconds(ttl: timedelta) -> int:
    """A lease of at least that length, as managers count."""
    return max(LEAST_TTL, math.ceil(ttl.total_seconds()))


def is_fresh(renewed: float, seconds: int) -> bool:
    """Whether what was renewed then, by the monotonic clock, for so many seconds need not be renewed yet."""
    return time.monotonic() - renewed <= seconds / 6


def left_of(renewed: float, seconds: int) -> timedelta:
    """How long it still holds."""
    return timedelta(seconds=renewed + seconds - time.monotonic())


def decoded(manager: str, key: str | bytes, value: bytes, kind: type[S]) -> S:
    """The value of a key. `StoreUnavailable` if something else has written there."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise StoreUnavailable(f"{manager}: the key {key!r} was written by something else: {error}") from error
