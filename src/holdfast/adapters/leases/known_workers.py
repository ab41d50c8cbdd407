"""Workers as a manager sees them, by their heartbeats and the runs they hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from holdfast.ports.grants import Standing


def standing_of(heard: Mapping[str, datetime | None], held: Mapping[str, str]) -> Sequence[Standing]:
    """The state of each worker by its id. `heard`: when each was last heard (None: never); `held`: the worker of each
    run."""
    active = Counter(held.values())
    return [
        Standing(worker, heard.get(worker) is not None, active[worker], heard.get(worker))
        for worker in sorted({*heard, *active})
    ]
