"""Lifts the bodies of rows written in older event formats, one format at a time, as plain JSON values.

`UPCASTERS[n]` turns the events of format n into those of format n + 1. Golden journals (`tests/golden`) hold rows of
every format, and every one of them must replay to the same commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

UPCASTERS: dict[int, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {}
