"""A run of a simulation, as a test uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from holdfast import sync
from holdfast.authoring.handle import JournalEvent, Part
from holdfast.authoring.script.channels import Channel, RunVar
from holdfast.authoring.script.stream import Sent
from holdfast.authoring.script.update import AnyUpdate
from holdfast.client.client_run import ClientRun, events_of
from holdfast.core.durations import Duration
from holdfast.core.status import Status
from holdfast.core.turn import Turn
from holdfast.errors import ResultTimeout, UpdateTimeout

if TYPE_CHECKING:
    from holdfast.testing.sim import Sim

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class SimRun(sync.Run[R_co]):
    """A run in a simulation: the verbs of `holdfast.sync.Run`, none of which waits."""

    def __init__(self, run: Any, sim: Sim) -> None:
        super().__init__(run, sim)
        self._sim = sim

    @property
    def waiting(self) -> str:
        """What the run is doing now, as a sentence; empty when it has ended."""
        return self.view().waiting

    def result(self, timeout: Duration | None = None) -> R_co:
        """Returns the result, or raises the error that the run ended with. If it has not ended, the error says what it
        waits for; with a `timeout`, time may pass first."""
        if self.wait(timeout) is None:
            view = self.view()
            raise ResultTimeout(f"run {self.id} has not ended: {view.waiting}. {self._sim.advice(view)}")
        return super().result()

    def wait(self, timeout: Duration | None = None) -> Status | None:
        """How the run ended; None if it has not. With a `timeout`, up to that much time passes first."""
        if timeout is not None:
            self._sim.pass_time(timeout, until_end_of=self.id)
        status = self.status()
        return status if status.is_terminal else None

    def signal(self, channel: Channel[T], value: T, *, id: str | None = None, connection: object | None = None) -> None:
        """Sends a signal, and lets the run take it. A simulation has no database, so it refuses a `connection`."""
        super().signal(channel, value, id=id or self._sim.next_id("signal"), connection=connection)

    def update(self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None) -> A:
        """Asks the run, lets it answer, and returns the answer. If it does not answer, the error says what the run
        waits for; with a `timeout`, that much time passes before."""
        chosen, now = id or self._sim.next_id("update"), timedelta(0)
        with suppress(UpdateTimeout):  # the question is asked; whatever follows from it happens before this ends
            return super().update(update, value, id=chosen, timeout=now)
        try:
            return super().update(update, value, id=chosen, timeout=now)
        except UpdateTimeout as late:
            if timeout is None:
                view = self.view()
                raise UpdateTimeout(
                    f"run {self.id} has not answered update {update.name}: {view.waiting}. {self._sim.advice(view)}",
                    run_id=self.id,
                    update=update.name,
                    id=chosen,
                ) from late
        self._sim.pass_time(timeout)
        return super().update(update, value, id=chosen, timeout=now)

    def watch(self, var: RunVar[T]) -> Iterator[T]:
        """The current value, if it is set. Does not wait for more."""
        value = self.get(var)
        return iter([] if value is None else [value])

    def retry(self, *, id: str | None = None) -> SimRun[R_co]:
        """Starts a new run that takes over what this one has completed."""
        made = self._sim.call(self._run.retry(id=id or self._sim.next_id("run")))
        return SimRun(made, self._sim)

    def follow(self, *, after: int | JournalEvent = 0) -> Iterator[JournalEvent]:
        """The journal so far. Does not wait for more."""
        turns: list[Turn] = self._sim.call(cast("ClientRun[R_co]", self._run).history())
        root = self.view().root
        every = [event for turn in turns for event in events_of(turn, root)]
        seen = (after.seq, after.index) if isinstance(after, JournalEvent) else (after + 1, -1)
        return iter([event for event in every if (event.seq, event.index) > seen])

    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: Literal["completed"] | None = None
    ) -> Iterator[Part[T]]:
        """The parts so far. Does not wait for more."""
        return iter(self._sim.call(cast("ClientRun[R_co]", self._run).read_now(stream, after=after, only=only)))
