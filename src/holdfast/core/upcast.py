"""Converts the bodies of rows in older event formats, one format at a time, as plain JSON values.

`UPCASTERS[n]` turns the events of format n into those of format n + 1. Golden journals (`tests/golden`) hold rows of
every format, and every one of them must replay to the same commands.

The stand-in of a compacted journal is lifted like any event: what a new format changes in a fold (`core.run.Run`), its
upcaster changes in the `fold` of `compacted`. The turns packed in its segments are lifted by themselves, and snapshots
of another format are not read at all: the journal is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def unchanged(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For two formats whose events are the same. Their bytes are read as they are, so payloads stay exactly the
    same."""
    return events


UPCASTERS: dict[int, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    1: unchanged,  # format 2 has other checksums, and facts that format 1 does not know
}
