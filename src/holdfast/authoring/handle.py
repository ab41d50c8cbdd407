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
    """A run as its row describes it: what lists and `show` print."""

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
    """The worker that holds it, or held it last."""
    epoch: int
    turns: int
    doing: Doing
    note: str
    seen_at: datetime
    damage: tuple[str, ...] = ()
    """The columns of its row that cannot be read, with reasons."""
    is_held: bool = False
    """Whether a worker holds it now. A run that only waits is held by none."""
    error: str = ""
    """The first line of its error, or of the reason for its cancellation; lists and `show` read it from the journal."""

    @property
    def waiting(self) -> str:
        """What the run is doing now, as a sentence; empty when it has ended."""
        if self.damage:
            return f"damaged: {'; '.join(self.damage)}"
        text = describe(self.doing, self.seen_at)
        return f"{text} ({self.note})" if self.note and text else text or self.note


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the run has not taken. `number` is its place in the inbox; 0 if the journal has it already and no
    wait has taken it. `problem`: why the run cannot read it, if this is known here."""

    number: int
    id: str
    kind: str
    name: str = ""
    sender: str = ""
    value: str = ""
    problem: str = ""


class LeftIn(msgspec.Struct, frozen=True, kw_only=True):
    """A place that still has a redacted value: in run `run`, of that status. `place` is a path to redact there, or says
    in words what is not redacted, such as an id or a blob of a user."""

    run: str
    place: str
    status: Status


class RedactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `redact` did. `changed` are the places of the run that lost something, `left_in` the places that still have
    the value. `searched` other runs were read for that; `has_more`: there are others, which were not."""

    run: str
    changed: tuple[str, ...]
    left_in: tuple[LeftIn, ...]
    searched: int
    has_more: bool = False
    is_dry: bool = False


class JournalEvent(msgspec.Struct, frozen=True):
    """One event of a run's journal, as `follow` shows it, with the run and the root of its tree."""

    seq: int
    run: str
    root: str
    ordinal: int
    index: int
    at: datetime
    type: str
    data: dict[str, Any]


PartState: TypeAlias = Literal["open", "completed", "superseded"]
"""The state of the attempt that sent a part: still running, completed, or failed or cut off."""


class Part(msgspec.Struct, Generic[T], frozen=True):
    """A part of a stream. `step` is the key of the step that sent it (empty: the workflow itself), `attempt` which
    attempt of it, `offset` its place in the stream, from 0, and `state` the state of the attempt at the time of
    reading."""

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
        """Waits for the end and returns how the run ended; None if the time runs out first."""

    @abstractmethod
    async def status(self) -> Status:
        """The run's status."""

    @abstractmethod
    async def view(self) -> RunView:
        """The run's row: status, times, attributes, what it is doing."""

    @abstractmethod
    async def signal(
        self, channel: Channel[T], value: T, *, id: str | None = None, connection: object | None = None
    ) -> None:
        """Sends a signal: accepted durably, delivered exactly once. The same signal with the same `id` counts once;
        another signal or value under that id raises `Conflict`.
        `connection`: joins your open transaction, as for `App.start`: the run gets it when you commit."""

    @abstractmethod
    async def update(
        self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None
    ) -> A:
        """Asks the run, exactly once by `id`, and waits for the answer. Raises `UpdateRefused` if the run refuses,
        `UpdateUnanswered` if it will never answer, and `UpdateTimeout` if it has not answered yet: then ask again with
        the same id."""

    @abstractmethod
    async def get(self, var: RunVar[T]) -> T | None:
        """A value that the run exposes; None if it has not been set."""

    @abstractmethod
    def watch(self, var: RunVar[T]) -> AsyncIterator[T]:
        """A value that the run exposes: now, then the newest after each change, until the run ends."""

    @abstractmethod
    async def cancel(self, reason: str = "") -> None:
        """Cancels the run: CancelledError at its await, then durable clean-up."""

    @abstractmethod
    async def kill(self, reason: str = "") -> None:
        """Ends the run at once: none of its code runs, nothing is undone."""

    @abstractmethod
    async def delete(self) -> int:
        """Deletes the ended run with its whole tree: rows, journals, messages, values. Returns how many runs were
        deleted; the id is free again. Raises `RunOpen` if a run of the tree has not ended, and `Conflict` for a child:
        delete its root."""

    @abstractmethod
    async def redact(self, *paths: str, reason: str = "", dry_run: bool = False) -> RedactionResult:
        """Takes values out of the ended run for good: what is at paths such as "input.customer.email" or
        "steps.charge.result", and every copy of it in the run. Returns what else has them. Raises `RunOpen` if the run
        has not ended, and `InvalidInput` if there is nothing at a path. `dry_run` writes nothing."""

    @abstractmethod
    async def pause(self, reason: str = "") -> None:
        """Pauses the run until it is resumed."""

    @abstractmethod
    async def resume(self) -> None:
        """Resumes a paused run, also one that was quarantined or has diverged."""

    @abstractmethod
    async def messages(self) -> list[StoredMessage]:
        """Messages that the run has not taken yet, oldest first, as JSON, with a reason if the run cannot read one."""

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
        """The journal, live, until the run ends. `after` is the event last seen. All events of one turn have the same
        `seq`: a number means that the whole turn was seen."""

    @abstractmethod
    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: Literal["completed"] | None = None
    ) -> AsyncIterator[Part[T]]:
        """The parts of a stream, live and in order, until the run ends. `after` is the part last seen, or its offset.
        With `only="completed"`, parts of an attempt come when it has completed; parts of failed attempts never come."""
