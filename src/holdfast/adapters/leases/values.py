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
"""Shortest time to live in seconds. Managers count whole seconds, and look for expired keys once or twice a second."""


class Heard(msgspec.Struct, frozen=True):
    """The value of a worker's heartbeat: its time by the worker's clock (None: the worker asked for runs before its
    first heartbeat), and the length of the lease."""

    seen_at: datetime | None
    ttl: float


def whole_seconds(ttl: timedelta) -> int:
    """The lease rounded up to whole seconds, as managers count."""
    return max(LEAST_TTL, math.ceil(ttl.total_seconds()))


def is_fresh(renewed: float, seconds: int) -> bool:
    """Whether something renewed at that monotonic time, for that many seconds, need not be renewed yet."""
    return time.monotonic() - renewed <= seconds / 6


def left_of(renewed: float, seconds: int) -> timedelta:
    """How long it is still valid."""
    return timedelta(seconds=renewed + seconds - time.monotonic())


def decoded(manager: str, key: str | bytes, value: bytes, kind: type[S]) -> S:
    """Decodes the value of a key. Raises `StoreUnavailable` if other software wrote it."""
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise StoreUnavailable(f"{manager}: the key {key!r} was written by other software: {error}") from error
