"""What the bodies of a simulation reach, set by its world, and how often their steps are tried."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from holdfast import Retry

FEW = Retry(6, first="100ms", factor=2, ceiling="1s")


class Stage:
    """What the bodies of one simulation reach: set by its world."""

    body: Callable[[], AbstractAsyncContextManager[int]]
    """Entered by every body; gives the number of the attempt."""
    inserts: Callable[[], int]
    """Where the code of this process has one step more; -1: nowhere."""
    poison: Callable[[], None]
    """May end this process."""


STAGE = Stage()
