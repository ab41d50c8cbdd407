"""What the handle of a run and the operator verbs need from a client: its store, its worker in this process, its
name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from holdfast.client.feed import Feeds
from holdfast.client.hidden_values import HiddenValues
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
    """A worker of this process that may begin a new run at once."""

    def wants(self, workflow: str, version: str, queue: str) -> bool:
        """Whether it runs that definition."""
        ...

    def make(self, new: NewRun, turn: Turn, *, key_since: datetime, is_named: bool) -> Awaitable[Creation]:
        """Makes the run already begun: `Runs.create` and the first turn in one transaction."""
        ...

    def holds(self, run: str) -> bool:
        """Whether it advances the run."""
        ...

    def settles(self, run: str) -> bool:
        """Whether it wrote the run's last turn and has not processed it yet. From any thread."""
        ...

    def tell_ends(self, listener: Callable[[e.ChildEnded], None]) -> None:
        """Sets the listener for the ends of the runs it advances; called once an end is durable."""
        ...


class Access(Protocol):
    """The part of a client that its runs use."""

    @property
    def store(self) -> Store:
        """The store of the runs."""
        ...

    @property
    def waiting(self) -> Waiting:
        """The callers that wait for the end of a run."""
        ...

    @property
    def feeds(self) -> Feeds:
        """The news of the store."""
        ...

    @property
    def watches(self) -> Watches:
        """The watched values."""
        ...

    @property
    def hidden(self) -> HiddenValues:
        """What must not be shown of each run."""
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
        """Returns the trace of the caller."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """The telemetry to report to."""
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
        """Sends a message. Raises if the run does not exist or has ended."""
        ...
