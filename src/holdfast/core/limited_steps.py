"""Applies the journal's events about limits to the open steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from holdfast.core.events import HeldBack, Limited
from holdfast.core.opened import OpenStep


def limited(steps: Mapping[str, OpenStep], event: Limited, at: datetime) -> None:
    """Some steps begin, others wait. A step that is no longer open was settled in the same turn."""
    for key in event.begun:
        step = steps.get(key)
        if step is not None:
            step.is_unstarted, step.limits, step.limited_at = False, "", None
    for key, names in event.waiting.items():
        step = steps.get(key)
        if step is not None:
            step.is_unstarted, step.limits, step.limited_at = True, names, at


def held_back(steps: Mapping[str, OpenStep], event: HeldBack, at: datetime) -> None:
    """The next attempt waits."""
    step = steps.get(event.key)
    if step is not None:
        step.attempt, step.is_unstarted, step.limits, step.limited_at = event.attempt + 1, True, event.limit, at
