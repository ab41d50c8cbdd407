"""The tables of limits as one transaction of a store sees them. Times are microseconds; runs are known by number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import msgspec

from holdfast.core.limit import Rule, Setting


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """A step that stands in a line. `since` is when it was first refused; `woken_at` when it was or will be woken."""

    name: str
    key: str
    since: int
    no: int
    step: str
    woken_at: int | None = None
    seq: int | None = None
    """Among waiters of one instant: the order in which they came. None: last."""


class Desk(ABC):
    """See the module. Whoever reads a line may write it: no other transaction does meanwhile."""

    now: int

    @abstractmethod
    def is_current(self, no: int, epoch: int) -> bool:
        """Whether the run's epoch is that one; until the end of the transaction, if it is."""

    @abstractmethod
    def is_held(self, no: int, epoch: int) -> bool:
        """Whether the run is held with that epoch, and has not ended."""

    @abstractmethod
    def setting(self, name: str) -> Setting | None:
        """What the store says of the limit."""

    @abstractmethod
    def declare(self, name: str, rule: Rule) -> None:
        """The store says this of the limit from now on, unless it says something already."""

    @abstractmethod
    def lock(self, lines: Sequence[tuple[str, str]]) -> None:
        """Makes these lines, which are sorted, if need be, and keeps other writers from them."""

    @abstractmethod
    def line(self, name: str, key: str) -> tuple[int, int]:
        """Its theoretical arrival time, and until when it is quiet."""

    @abstractmethod
    def put_line(self, name: str, key: str, tat: int, quiet_until: int) -> None:
        """Sets both."""

    @abstractmethod
    def slots(self, name: str, key: str) -> set[int]:
        """The slots of the line that are taken. Those of holders that lost their run are given back first."""

    @abstractmethod
    def places(self, no: int, step: str, epoch: int) -> set[tuple[str, str]]:
        """The lines in which the step has a place with that epoch."""

    @abstractmethod
    def add_place(self, name: str, key: str, slot: int, no: int, step: str, epoch: int) -> None:
        """The slot is taken."""

    @abstractmethod
    def lines_of(self, steps: Collection[tuple[int, str]]) -> set[tuple[str, str]]:
        """The lines in which these steps of these runs have a place or wait."""

    @abstractmethod
    def meet(self, runs: Collection[int]) -> None:
        """Reads what is known of these runs: the questions of `is_held`, `places` and `waiter` are about them. Their
        lines are locked."""

    @abstractmethod
    def drop(self, no: int, step: str) -> None:
        """The step has no place and waits no more."""

    @abstractmethod
    def drop_waiter(self, no: int, step: str) -> None:
        """The step waits no more."""

    @abstractmethod
    def waiter(self, no: int, step: str) -> Waiter | None:
        """The step as a waiter."""

    @abstractmethod
    def put_waiter(self, waiter: Waiter) -> None:
        """The step waits there, and nowhere else."""

    @abstractmethod
    def has_ahead(self, waiter: Waiter, lapsed: int) -> bool:
        """Whether others are before it in its line: but for runs that are paused, or were woken before `lapsed`."""

    @abstractmethod
    def awake(self, name: str, key: str, lapsed: int) -> int:
        """Waiters of the line that were woken, or will be, not before `lapsed`."""

    @abstractmethod
    def sleepers(self, name: str, key: str, most: int) -> Sequence[Waiter]:
        """The first waiters of the line that were not woken, of runs that may be claimed or are held."""

    @abstractmethod
    def wake(self, waiter: Waiter, at: int) -> None:
        """Wakes it then: its run is due at that time, unless it is held; its listeners hear of it."""

    @abstractmethod
    def woken(self, no: int) -> int | None:
        """The first time at which a waiter of the run was or will be woken."""

    @abstractmethod
    def due(self, no: int, at: int) -> None:
        """The run, if it is not held, is due then at the latest."""

    @abstractmethod
    def waited_lines(self, most: int) -> Sequence[tuple[str, str]]:
        """Lines that have waiters."""

    @abstractmethod
    def forget_ended(self, name: str, key: str) -> None:
        """Waiters of runs that have ended leave the line."""

    @abstractmethod
    def wake_again(self, name: str, key: str, lapsed: int) -> None:
        """Waiters that were woken before, and whose runs are not due and not held, count as not woken."""
