"""Workers as a manager knows them, from their heartbeats and from the runs they hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from holdfast.ports.grants import Standing


def standing_of(heard: Mapping[str, datetime | None], held: Mapping[str, str]) -> Sequence[Standing]:
    """By worker id. `heard`: when each was heard (None: it never sent a heartbeat); `held`: the worker of each run."""
    active = Counter(held.values())
    return [
        Standing(worker, heard.get(worker) is not None, active[worker], heard.get(worker))
        for worker in sorted({*heard, *active})
    ]
