"""`Run[R]`: a run as seen by its starter, from a client or from inside a workflow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.core.doing import Doing, describe
from holdfast.core.durations import Duration
from holdfast.core.status import Status

if TYPE_CHECKING:
    from holdfast.authoring.script.channels import Channel, RunVar
    from holdfast.authoring.script.stream import Sent
    from holdfast.authoring.script.update import AnyUpdate

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its row says: what lists and `show` print."""

    id: str
    workflow: str
    version: str
    status: Status
    queue: str
    priority: int
    key: str
    parent: str
    root: str
    attributes: dict[str, str]
    created_at: datetime
    started_at: datetime | None
    updated_at: datetime
    ended_at: datetime | None
    available_at: datetime | None
    deadline: datetime | None
    worker: str
    epoch: int
    turns: int
    doing: Doing
    note: str
    seen_at: datetime
    damage: tuple[str, ...] = ()
    """Columns of its row that cannot be read, each with why."""
    error: str = ""
    """The first line of what it failed with, or of why it was cancelled; lists and `show` read it from the journal."""

    @property
    def waiting(self) -> str:
        """What it is doing now, as a sentence; empty when it has ended."""
        if self.damage:
            return f"damaged: {'; '.join(self.damage)}"
        text = describe(self.doing, self.seen_at)
        return f"{text} ({self.note})" if self.note and text else text or self.note


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a run that it has not taken. `number` is its place in the inbox; 0: the journal has it already, and
    no wait has taken it. `problem`: why the run will not be able to read it, as far as that can be known here."""

    number: int
    id: str
    kind: str
    name: str = ""
    sender: str = ""
    value: str = ""
    problem: str = ""


class JournalEvent(msgspec.Struct, frozen=True):
    """One fact of a run's journal, as `follow` shows it: of which run, in the tree of which root."""

    seq: int
    run: str
    root: str
    ordinal: int
    index: int
    at: datetime
    type: str
    data: dict[str, Any]


PartState: TypeAlias = Literal["open", "completed", "superseded"]
"""What became of the attempt that sent a part: it may still run, it completed, or it failed or was cut off."""


class Part(msgspec.Struct, Generic[T], frozen=True):
    """A part of a stream. `step` is the key of the step that sent it (empty: the workflow itself), `attempt` which
    attempt of it, `offset` its place in the stream, from 0, and `state` what became of the attempt when it was read."""

    value: T
    step: str
    attempt: int
    offset: int
    state: PartState = "completed"


class Run(ABC, Generic[R_co]):
    """A handle on one run, from `app.start`, `app.get` or `start`. Reading needs no worker."""

    def __init__(self, id: str) -> None:
        self.id = id

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @abstractmethod
    async def result(self, timeout: Duration | None = None) -> R_co:
        """Waits for the end and returns the result, or raises `RunFailed`, `RunCancelled`, a declared exception or
        `ResultTimeout`."""

    @abstractmethod
    async def wait(self, timeout: Duration | None = None) -> Status | None:
        """Waits for the end and returns how it ended; None if the time ran out."""

    @abstractmethod
    async def status(self) -> Status:
        """The run's status."""

    @abstractmethod
    async def view(self) -> RunView:
        """The run's row: status, times, attributes, what it is doing."""

    @abstractmethod
    async def signal(self, channel: Channel[T], value: T, *, id: str | None = None) -> None:
        """Sends a signal: accepted durably, delivered exactly once. The same `id` again counts once."""

    @abstractmethod
    async def update(
        self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None
    ) -> A:
        """Asks the run, exactly once by `id`, and waits for the answer: `UpdateRefused` if the run refuses it,
        `UpdateUnanswered` if it never will answer, `UpdateTimeout` if it has not yet: ask again with the same id."""

    @abstractmethod
    async def get(self, var: RunVar[T]) -> T | None:
        """A value the run shows to the outside; None if it has not been set."""

    @abstractmethod
    def watch(self, var: RunVar[T]) -> AsyncIterator[T]:
        """A value the run shows: as it is now, then the newest after each change, until the run ends."""

    @abstractmethod
    async def cancel(self, reason: str = "") -> None:
        """Cancels the run: CancelledError at its await, then durable clean-up."""

    @abstractmethod
    async def kill(self, reason: str = "") -> None:
        """Ends the run at once: none of its code runs, nothing is undone."""

    @abstractmethod
    async def delete(self) -> int:
        """Deletes the ended run with its whole tree: rows, journals, messages, values. Returns how many runs went; the
        id is free again. `RunOpen` if a run of the tree has not ended, `Conflict` for a child: delete its root."""

    @abstractmethod
    async def pause(self, reason: str = "") -> None:
        """Pauses the run until it is resumed."""

    @abstractmethod
    async def resume(self) -> None:
        """Resumes a paused run, also one that was quarantined or has diverged."""

    @abstractmethod
    async def messages(self) -> list[StoredMessage]:
        """Messages that the run has not taken yet, oldest first, as JSON; values that do not fit say why."""

    @abstractmethod
    async def drop_message(self, message: int | str, reason: str = "") -> bool:
        """Drops a message that the run cannot read, by number or id, so that it can continue once it is resumed.
        Returns True if nothing was lost: the message was the end of a child, and is sent again.
        """

    @abstractmethod
    async def replace_message(self, message: int | str, value: object, reason: str = "") -> None:
        """Replaces the value of a signal that a paused run has not taken, by number or id. The value is checked as when
        it is sent; the journal says who replaced it, and why."""

    @abstractmethod
    async def retry(self, *, id: str | None = None) -> Run[R_co]:
        """Starts a new run that takes over what this failed one has completed."""

    @abstractmethod
    def follow(self, *, after: int | JournalEvent = 0) -> AsyncIterator[JournalEvent]:
        """The journal, live, until the run ends. `after` is the event last seen. All facts of one turn have the same
        `seq`: given as a number, it says that the whole turn was seen."""

    @abstractmethod
    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: Literal["completed"] | None = None
    ) -> AsyncIterator[Part[T]]:
        """The parts of a stream, live and in order, until the run ends. `after` is the part last seen, or its offset.
        With `only="completed"` parts of an attempt come once it has completed, and those of others never do."""
