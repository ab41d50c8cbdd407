"""What clients took out of a store, as facts."""

from __future__ import annotations

import msgspec


class RunDeleted(msgspec.Struct, frozen=True):
    """A client of this process deleted an ended run with its whole tree of `runs`, in the name of `actor`."""

    run: str
    runs: int
    actor: str


class RunRedacted(msgspec.Struct, frozen=True):
    """A client of this process took values out of `places` of an ended run, in the name of `actor`."""

    run: str
    places: int
    actor: str
