"""One finding of a check of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One finding of a check."""

    check: str
    state: Literal["ok", "warning", "problem"]
    text: str


LISTED = 5
"""The most that one check lists of a kind."""


def first_of(found: Sequence[Finding]) -> list[Finding]:
    """The first of these findings of one check, and how many more there are."""
    more = len(found) - LISTED
    return [*found[:LISTED], *([Finding(found[0].check, "warning", f"and {more} more")] if more > 0 else [])]
