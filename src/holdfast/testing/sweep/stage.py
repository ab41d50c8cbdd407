"""The stage of one performance of a run, with the requested disturbances.

A performance has a memory store and a clock; its workers are separate simulations (`actors`). A killed worker never
runs again: its event loop stops in the middle of a callback, as when a process is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.core import events as e
from holdfast.core.references import references_of
from holdfast.core.turn import Row, decode_row
from holdfast.testing.sim import BEGINNING
from holdfast.testing.sweep.memory import Memory
from holdfast.testing.sweep.points import Kind, Point
from holdfast.testing.virtual_loop import at_once


class Killed(SystemExit):
    """Ends an event loop at once: asyncio does not catch it."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A body that began. `has_outcome`: its step's outcome was durable before."""

    run: str
    key: str
    step: str
    attempt: int
    is_once: bool
    has_outcome: bool


@dataclass(slots=True)
class Stage:
    """What one performance shares: the store, the requested disturbances, and what has happened."""

    root: str
    ordered: tuple[Point, ...] = ()
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(BEGINNING))
    store: MemoryStore = field(init=False)
    passed: list[Point] = field(default_factory=list[Point])
    done: list[Point] = field(default_factory=list[Point])
    executions: list[Execution] = field(default_factory=list[Execution])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Observations about the author's code, with advice: a swallowed cancel, a clock read, a changed argument."""
    rows_at_crash: list[Row] = field(default_factory=list[Row])
    processes: int = 0
    landed: set[str] = field(default_factory=set[str])
    settled: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Steps whose results are durable: (run, key)."""
    outside: Memory = field(default_factory=lambda: Memory(()))
    """What bodies of steps and fakes keep."""
    go_on: Callable[[], None] = lambda: None
    """Lets a second worker do the rest."""

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)

    def meets(self, kind: Kind, place: str, step: str = "") -> bool:
        """Records that a point is passed. Returns whether its disturbance happens now."""
        point = Point(kind, place, step)
        self.passed.append(point)
        if len(self.done) == len(self.ordered) or not self.ordered[len(self.done)].is_same(point):
            return False
        self.done.append(point)
        if len(self.done) == 1:
            self.rows_at_crash = self.journal()
        return True

    def kill_if(self, kind: Kind, place: str, step: str = "") -> None:
        """Kills the worker if that was requested."""
        if self.meets(kind, place, step):
            raise Killed(str(self.done[-1]))

    def settle(self, row: Row) -> None:
        """Takes note of the results in a row that was just written."""
        if b'"done"' not in row.body and b'"continued"' not in row.body:
            return
        for event in decode_row(row).events:
            if isinstance(event, e.StepCompleted):
                self.settled.add((row.run, event.key))
            elif isinstance(event, e.Continued):
                self.settled = {known for known in self.settled if known[0] != row.run}

    def note(self, what: str, advice: str) -> None:
        """Records an observation about the author's code, once."""
        self.notes.setdefault(what, advice)

    def journal(self) -> list[Row]:
        """The rows of the swept run and of every run below it, in order."""
        return at_once(self.store.read_tree(self.root, limit=1_000_000))

    def blobs(self) -> dict[str, bytes]:
        """What those rows refer to."""
        names = {name for row in self.journal() for name in references_of(decode_row(row).events)}
        return dict(at_once(self.store.get_blobs(at_once(self.store.known_blobs(sorted(names))))))

    @property
    def is_over(self) -> bool:
        """Whether everything requested has happened."""
        return len(self.done) == len(self.ordered)

    @property
    def since(self) -> Sequence[Point]:
        """The points passed after the last disturbance."""
        if not self.done:
            return self.passed
        last = max(number for number, point in enumerate(self.passed) if point == self.done[-1])
        return self.passed[last + 1 :]
