"""One finding of a check of a store."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One finding of a check."""

    check: str
    state: Literal["ok", "warning", "problem"]
    text: str
