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
    """See the module. A transaction that reads a line may write it: the line is locked until the transaction ends."""

    now: int

    @abstractmethod
    def is_current(self, no: int, epoch: int) -> bool:
        """Whether the run has that epoch. If so, it keeps it until the transaction ends."""

    @abstractmethod
    def is_held(self, no: int, epoch: int) -> bool:
        """Whether a worker holds the run with that epoch and the run has not ended."""

    @abstractmethod
    def setting(self, name: str) -> Setting | None:
        """The stored settings of the limit."""

    @abstractmethod
    def declare(self, name: str, rule: Rule) -> None:
        """Stores the settings of the limit, unless it has some."""

    @abstractmethod
    def lock(self, lines: Sequence[tuple[str, str]]) -> None:
        """Locks these sorted lines against other writers, and makes those that are missing."""

    @abstractmethod
    def line(self, name: str, key: str) -> tuple[int, int]:
        """The line's theoretical arrival time, and until when it is paused."""

    @abstractmethod
    def put_line(self, name: str, key: str, tat: int, quiet_until: int) -> None: ...

    @abstractmethod
    def slots(self, name: str, key: str) -> set[int]:
        """The taken slots of the line. First frees those whose holder lost its run."""

    @abstractmethod
    def places(self, no: int, step: str, epoch: int) -> set[tuple[str, str]]:
        """The lines in which the step has a place with that epoch."""

    @abstractmethod
    def add_place(self, name: str, key: str, slot: int, no: int, step: str, epoch: int) -> None:
        """Takes the slot."""

    @abstractmethod
    def lines_of(self, steps: Collection[tuple[int, str]]) -> set[tuple[str, str]]:
        """The lines in which these steps of these runs have a place or wait."""

    @abstractmethod
    def meet(self, runs: Collection[int]) -> None:
        """Reads what is known of these runs: the questions of `is_held`, `places` and `waiter` are about them. Their
        lines are locked."""

    @abstractmethod
    def drop(self, no: int, step: str) -> None:
        """Removes the step's places and its wait."""

    @abstractmethod
    def drop_waiter(self, no: int, step: str) -> None:
        """Removes the step's wait."""

    @abstractmethod
    def waiter(self, no: int, step: str) -> Waiter | None:
        """The waiting step, if it waits."""

    @abstractmethod
    def put_waiter(self, waiter: Waiter) -> None:
        """Makes the step wait in that line, and in no other."""

    @abstractmethod
    def has_ahead(self, waiter: Waiter, lapsed: int) -> bool:
        """Whether other waiters are before it in its line. Paused runs and waiters woken before `lapsed` do not
        count."""

    @abstractmethod
    def awake(self, name: str, key: str, lapsed: int) -> int:
        """Waiters of the line that were or will be woken at `lapsed` or later."""

    @abstractmethod
    def sleepers(self, name: str, key: str, most: int) -> Sequence[Waiter]:
        """The first waiters of the line that were not woken and whose runs can be claimed or are held."""

    @abstractmethod
    def wake(self, waiter: Waiter, at: int) -> None:
        """Wakes the waiter at that time: its run becomes due then unless it is held, and its listeners are told."""

    @abstractmethod
    def hurry(self, name: str, key: str) -> None:
        """Gives the woken waiters of the line that are due and not held the place of their start in the order of
        claims."""

    @abstractmethod
    def woken(self, no: int) -> int | None:
        """The earliest time at which a waiter of the run was or will be woken."""

    @abstractmethod
    def due(self, no: int, at: int) -> None:
        """Makes the run due at that time at the latest, unless it is held."""

    @abstractmethod
    def waited_lines(self, most: int) -> Sequence[tuple[str, str]]:
        """Lines that have waiters."""

    @abstractmethod
    def forget_ended(self, name: str, key: str) -> None:
        """Removes waiters whose runs have ended."""

    @abstractmethod
    def wake_again(self, name: str, key: str, lapsed: int) -> None:
        """Marks waiters as not woken if they were woken earlier and their runs are neither due nor held."""
