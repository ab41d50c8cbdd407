"""The transitions of a run and of an attempt, as tables; the diagrams in the docs are generated from them.

Waiting is not a status: the run is `running`, and what it waits for is derived (`core.doing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.errors import HoldfastError, InvalidInput


class Status(StrEnum):
    """The status of a run."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return not RUN_TRANSITIONS[self]


UNCLAIMED = "resumed, never claimed"
"""How a run leaves a pause that came before its first claim."""

RUN_TRANSITIONS: Mapping[Status, Mapping[str, Status]] = {
    Status.PENDING: {
        "claimed": Status.RUNNING,
        "paused": Status.PAUSED,
        "resumed": Status.PENDING,
        "failed": Status.FAILED,
        "cancelled": Status.CANCELLED,
    },
    Status.RUNNING: {
        "claimed": Status.RUNNING,
        "paused": Status.PAUSED,
        "resumed": Status.RUNNING,
        "continued": Status.RUNNING,
        "completed": Status.COMPLETED,
        "failed": Status.FAILED,
        "cancelled": Status.CANCELLED,
    },
    Status.PAUSED: {
        "claimed": Status.PAUSED,
        "paused": Status.PAUSED,
        "resumed": Status.RUNNING,
        UNCLAIMED: Status.PENDING,
        "continued": Status.PAUSED,
        "failed": Status.FAILED,
        "cancelled": Status.CANCELLED,
    },
    Status.COMPLETED: {},
    Status.FAILED: {},
    Status.CANCELLED: {},
}
"""From a status, by the tag of an event, to the next. Other transitions are impossible. A sender that is not the holder
may send twice: a second pause or resume changes nothing.
"""

ATTEMPT_TRANSITIONS: Mapping[str, Mapping[str, str]] = {
    "scheduled": {
        "claimed": "scheduled",
        "done": "completed",
        "attempt_failed": "waiting",
        "step_failed": "failed",
        "abandoned": "abandoned",
        "retry": "abandoned",
    },
    "waiting": {"attempt": "scheduled", "step_failed": "failed", "abandoned": "abandoned", "retry": "abandoned"},
    "abandoned": {
        "done": "abandoned",
        "step_failed": "abandoned",
        "attempt_failed": "abandoned",
        "abandoned": "abandoned",
        "retry": "abandoned",
        "step": "scheduled",
    },
    "completed": {},
    "failed": {},
}
"""The transitions of a step key: `waiting` is between two attempts; an abandoned step's late outcome changes nothing,
and only a later pass of the body may ask for it again."""

ALIASES: Mapping[str, Status] = {
    "sleeping": Status.RUNNING,
    "succeeded": Status.COMPLETED,
    "canceled": Status.CANCELLED,
}
"""Words of other systems, accepted as filters and never stored."""


def next_status(status: Status, tag: str) -> Status:
    """The status after an event of that tag. Most events do not change it."""
    moved = RUN_TRANSITIONS[status].get(tag)
    if moved is not None:
        return moved
    if status.is_terminal:
        raise HoldfastError(f"a {status.value} run takes no further event, got {tag!r}")
    if tag in _MOVING:
        raise HoldfastError(f"a {status.value} run cannot take the event {tag!r}")
    return status


def parse_status(word: str) -> Status:
    """The status a filter names."""
    try:
        return ALIASES[word] if word in ALIASES else Status(word)
    except ValueError:
        known = ", ".join(status.value for status in Status)
        raise InvalidInput(f"unknown status {word!r}; use one of: {known}") from None


def diagram(table: Mapping[Status, Mapping[str, Status]] | Mapping[str, Mapping[str, str]], first: str) -> str:
    """The table as a Mermaid state diagram, without transitions to the same status."""
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    for source, edges in table.items():
        ways: dict[str, list[str]] = {}
        for tag, target in edges.items():
            if str(target) != str(source):
                ways.setdefault(str(target), []).append(tag)
        lines += [f"    {source!s} --> {target}: {' · '.join(tags)}" for target, tags in ways.items()]
        if not edges:
            lines.append(f"    {source!s} --> [*]")
    return "\n".join(lines) + "\n"


_MOVING = frozenset(tag for edges in RUN_TRANSITIONS.values() for tag in edges)
