"""What a run has asked for and not received yet: the open part of its fold."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.failure import Failure

WaitKind: TypeAlias = Literal["sleep", "signal", "topic", "update", "child"]


class OpenStep(msgspec.Struct, gc=False):
    """A step without its outcome."""

    key: str
    step: str
    scheduled_at: datetime
    attempt: int = 1
    failures: int = 0
    retry_at: datetime | None = None
    of: int | None = None
    last: Failure | None = None
    is_abandoned: bool = False
    is_unstarted: bool = False
    undo: bool = False
    undoes: str = ""
    progress: bytes = b"null"
    limits: str = ""  # those whose place it waits for, by name
    limited_at: datetime | None = None  # since when

    @property
    def in_flight(self) -> bool:
        """Whether its body may be running."""
        return self.retry_at is None and not self.is_abandoned

    @property
    def bodies(self) -> int:
        """How many of its attempts had a body: the last one has none while it waits to begin."""
        return self.attempt - 1 if self.is_unstarted else self.attempt

    @property
    def restarts(self) -> int:
        """Attempts that were cut off, not failed: they do not count against the budget."""
        begun = self.attempt if self.retry_at is not None else self.attempt - 1
        return begun - self.failures


class OpenWait(msgspec.Struct, gc=False):
    """Something the run waits for: a sleep, a signal, a topic or a child."""

    key: str
    kind: WaitKind
    name: str
    since: datetime
    until: datetime | None = None
    run: str = ""
    on_cancel: str = ""
    awaited: bool = True
    in_rounds: bool = False
