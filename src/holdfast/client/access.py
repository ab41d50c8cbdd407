"""What the handle of a run and the operator verbs need of a client: its store, its worker in this process, its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from holdfast.client.feed import Feeds
from holdfast.client.waiters import Waiting
from holdfast.client.watches import Watches
from holdfast.core import events as e
from holdfast.core.specs import WorkflowSpec
from holdfast.core.trace import CurrentTrace
from holdfast.core.turn import Turn
from holdfast.ports.inbox import Message
from holdfast.ports.runs import Creation, NewRun, RunRow
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry


class LocalWorker(Protocol):
    """A worker of this process that may take a new run at once."""

    def wants(self, workflow: str, version: str, queue: str) -> bool:
        """Whether it takes a run of that definition."""
        ...

    def make(self, new: NewRun, turn: Turn, *, key_since: datetime, is_named: bool) -> Awaitable[Creation]:
        """Makes the run, begun: `Runs.create`, and all the rest in the same transaction."""
        ...

    def holds(self, run: str) -> bool:
        """Whether it advances the run."""
        ...

    def settles(self, run: str) -> bool:
        """Whether it wrote the run's last turn and has not heard of it yet. From any thread."""
        ...

    def tell_ends(self, listener: Callable[[e.ChildEnded], None]) -> None:
        """Who is told of the end of each run it advances, once that is durable."""
        ...


class Access(Protocol):
    """A client, as far as its runs know it."""

    @property
    def store(self) -> Store:
        """Where the runs are."""
        ...

    @property
    def waiting(self) -> Waiting:
        """Who waits for the end of a run."""
        ...

    @property
    def feeds(self) -> Feeds:
        """What is new in the store."""
        ...

    @property
    def watches(self) -> Watches:
        """Values that are watched."""
        ...

    @property
    def local(self) -> LocalWorker | None:
        """The worker of this process, if there is one."""
        ...

    @property
    def actor(self) -> str:
        """Who sends signals and operates on runs, as the journal names them."""
        ...

    @property
    def current_trace(self) -> CurrentTrace:
        """Says which trace the caller belongs to."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """Who is told what happens."""
        ...

    def spec_of(self, row: RunRow) -> WorkflowSpec | None:
        """The definition of a run, if this process has it or its declaration."""
        ...


class Addressee(Protocol):
    """A run that messages can be sent to."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    async def send(self, message: Message, what: str) -> None:
        """Sends it; raises if the run is not there or has ended."""
        ...
