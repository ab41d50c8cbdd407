"""What one look at a store gave."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What one look gave."""

    check: str
    state: Literal["ok", "warning", "problem"]
    text: str
