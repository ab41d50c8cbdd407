"""Messages, questions and values of a run for plain `def` code. The rest of the handle is in `sync`."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from holdfast.authoring.handle import RedactionResult, Run, StoredMessage
from holdfast.authoring.script.channels import Channel, RunVar
from holdfast.authoring.script.update import AnyUpdate
from holdfast.client.blocking_batches import iterate
from holdfast.client.blocking_connection import blocking_connection
from holdfast.core.durations import Duration

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)


class Caller(Protocol):
    """Runs a coroutine on an event loop and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class RunTalk(Generic[R_co]):
    """The part of a blocking handle that is about messages and values."""

    _run: Run[R_co]
    _call: Caller

    def signal(self, channel: Channel[T], value: T, *, id: str | None = None, connection: object | None = None) -> None:
        """Sends a signal: durable when this returns, delivered exactly once. Another signal or value under an `id` that
        was used raises `Conflict`. `connection`: in your open transaction."""
        self._call(self._run.signal(channel, value, id=id, connection=blocking_connection(connection)))

    def update(self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None) -> A:
        """Asks the run, exactly once by `id`, and waits for its answer."""
        return self._call(self._run.update(update, value, id=id, timeout=timeout))

    def get(self, var: RunVar[T]) -> T | None:
        """A value that the run exposes."""
        got: T | None = self._call(self._run.get(cast("Any", var)))
        return got

    def watch(self, var: RunVar[T]) -> Iterator[T]:
        """A value that the run exposes: now, then the newest after each change, until the run ends."""
        return iterate(self._run.watch(var), self._call)

    def messages(self) -> list[StoredMessage]:
        """Messages that the run has not taken yet, oldest first."""
        return list(self._call(self._run.messages()))

    def drop_message(self, message: int | str, reason: str = "") -> bool:
        """Drops a message that the run cannot read. Returns True if nothing was lost."""
        return bool(self._call(self._run.drop_message(message, reason)))

    def replace_message(self, message: int | str, value: object, reason: str = "") -> None:
        """Replaces the value of a signal that a paused run has not taken."""
        self._call(self._run.replace_message(message, value, reason))

    def redact(self, *paths: str, reason: str = "", dry_run: bool = False) -> RedactionResult:
        """Takes values out of the ended run for good. Returns what else has them; see `holdfast.Run.redact`."""
        return self._call(self._run.redact(*paths, reason=reason, dry_run=dry_run))
