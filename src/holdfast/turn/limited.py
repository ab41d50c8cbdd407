"""The steps of one run that stand under limits: which wait for a place, which have one, and what to tell the store.

A limited step is recorded in two turns. The first schedules it and says that it waits; then the store is asked for its
places; the second, which the store's yes brings, says that it begins, and its body starts once that is durable. So the
row of a turn never depends on what the store answers, and the next worker of a run knows from its journal
alone whether a body had begun. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.core import events as e
from holdfast.core.commands import RunStep
from holdfast.core.failure import from_exception
from holdfast.core.limit import Demand
from holdfast.core.run import Run
from holdfast.core.step import limit_reached
from holdfast.ports.limits import Hold, PlaceAsk
from holdfast.turn.effects import MovePlaces

LOOK = timedelta(seconds=1)
"""How often a run that is held for other bodies asks again, in case it was not told that a place is free."""

MOST_ASKED = 20
"""Steps of a run that ask together; those that were scheduled first come first."""


_OUTCOMES = (e.StepCompleted, e.StepFailed, e.AttemptFailed, e.HeldBack)


class Lines:
    """See the module. Made for the first limited step of a run; most runs have none."""

    __slots__ = (
        *("_demands", "_drops", "_fresh", "_holds", "_is_put_off", "_refused"),
        *("granted", "held", "is_asking", "waiting"),
    )

    def __init__(self) -> None:
        self.waiting: dict[str, RunStep] = {}
        self.granted: dict[str, RunStep] = {}  # to be recorded as begun
        self.held: dict[str, RunStep] = {}  # steps that have places
        self.is_asking: bool = False
        self._is_put_off: bool = False  # the store did not count the run as ours, so no step stands in line
        self._fresh: dict[str, str] = {}  # to be recorded as waiting, with the names of their limits
        self._refused: set[str] = set()
        self._drops: list[str] = []
        self._holds: list[Hold] = []
        self._demands: dict[str, tuple[Demand, ...]] = {}

    def want(self, command: RunStep) -> None:
        """Takes an attempt that is to begin and is not recorded as waiting."""
        self._fresh[command.key] = ", ".join(command.spec.limits)
        self.wait(command)

    def wait(self, command: RunStep) -> None:
        """Takes an attempt that is to begin and is recorded as waiting."""
        self.waiting[command.key] = command
        self._refused.discard(command.key)

    def recorded(self, inputs: list[e.AnyEvent]) -> list[str]:
        """Says in the turn which steps wait, and which begin with it: their keys."""
        begun, self.granted = self.granted, {}
        if self._fresh or begun:
            waiting = {key: names for key, names in self._fresh.items() if key not in begun}
            inputs.append(e.Limited(waiting=waiting, begun=tuple(begun)))
            self._fresh = {}
        self.held.update(begun)
        return list(begun)

    def frees(self, inputs: Iterable[e.AnyEvent]) -> bool:
        """Whether a turn with these inputs frees places, and a step wants one."""
        freed = any(isinstance(x, _OUTCOMES) and x.key in self.held for x in inputs)
        return freed and (bool(self.waiting) or any(isinstance(x, e.HeldBack) for x in inputs))

    def settled(self, inputs: Iterable[e.AnyEvent]) -> None:
        """A turn is durable: places of steps with an outcome are free, so those that were refused may ask again.

        What is no longer wanted leaves the line.
        """
        if self.frees(inputs):
            self._refused.clear()
        for event in inputs:
            if isinstance(event, _OUTCOMES):
                command = self.held.get(event.key)
                if command is not None or event.key in self.waiting:
                    self.leave(event.key)
                if isinstance(event, e.HeldBack) and command is not None:
                    self._hold(event)
                    self.wait(command)
            elif isinstance(event, e.StepAbandoned) and event.key in self.waiting:
                self.leave(event.key)

    def leave(self, key: str) -> None:
        """Removes a step that has no place and no longer waits."""
        self._drops.append(key)
        self.held.pop(key, None)
        self.waiting.pop(key, None)

    def _hold(self, event: e.HeldBack) -> None:
        for demand in self._demands.get(event.key, ()):
            if demand.name == event.limit:
                self._holds.append(Hold(demand.name, demand.key, event.until))

    def forget(self) -> None:
        """Forgets what a refused turn recorded, once the journal has been read again."""
        self.waiting.clear()
        self._fresh.clear()
        self.granted.clear()

    # -- asking --------------------------------------------------------------------------------------------------------

    @property
    def has_unasked(self) -> bool:
        """Whether a step waits that has not been refused, or there is something to tell the store."""
        return bool(self._drops or self._holds) or any(key not in self._refused for key in self.waiting)

    def has_to_ask(self, inputs: Iterable[e.AnyEvent] = ()) -> bool:
        """Whether the store is to be asked, also after a turn with these inputs, or is being asked."""
        return self.is_asking or self.is_put_off or self.has_unasked or self.frees(inputs)

    def ask(
        self, run: Run, *, again: bool = False, may_begin: bool = True
    ) -> tuple[MovePlaces | None, list[e.AnyEvent]]:
        """What to tell the store, if there is anything; and the outcomes of steps whose limits cannot be told. `again`:
        also steps that were refused. Not `may_begin`: nothing begins now, and only what is free is told."""
        asks: list[PlaceAsk] = []
        failed: list[e.AnyEvent] = []
        for key, command in list(self.waiting.items()) if may_begin else ():
            if len(asks) == MOST_ASKED or (key in self._refused and not again):
                continue
            try:
                asks.append(PlaceAsk(key, self._demands_of(command)))
            except Exception as error:  # noqa: BLE001 the author's key function is called in there
                failure, step = from_exception(error), run.steps.get(key)
                failed.append(e.StepFailed(key=key, failure=failure, attempts=step.bodies if step is not None else 0))
                del self.waiting[key]
        if not asks and not self._drops and not self._holds:
            return None, failed
        move = MovePlaces(tuple(self._drops), tuple(self._holds), tuple(asks))
        self._drops, self._holds = [], []
        self.is_asking, self._is_put_off = bool(asks), False
        return move, failed

    def _demands_of(self, command: RunStep) -> tuple[Demand, ...]:
        known = self._demands.get(command.key)
        if known is None:
            assert command.spec.demands is not None
            known = self._demands[command.key] = command.spec.demands(command.args)
        return known

    def answered(self, asked: Iterable[str], granted: Iterable[str]) -> None:
        """Takes the store's answer, and gives back what is no longer wanted."""
        self.is_asking = False
        self._refused.update(asked)
        for key in granted:
            command = self.waiting.pop(key, None)
            if command is not None:
                self.granted[key] = command
            else:
                self._drops.append(key)

    def put_off(self) -> None:
        """The store does not count the run as held here. The lease is given back or the run is dropped when the worker
        compares what it holds; until then the steps wait, and ask again."""
        self.is_asking, self._is_put_off = False, True

    @property
    def is_put_off(self) -> bool:
        """Whether steps wait that are to ask again in a moment, and not before."""
        return self._is_put_off and bool(self.waiting)

    def parting(self, *, is_over: bool) -> MovePlaces | None:
        """What to tell the store when the run is no longer held."""
        if is_over:
            drops = (*self._drops, *self.held, *self.waiting, *self.granted)
            return MovePlaces(drops) if drops else None
        if self.waiting or self.granted or self._drops:
            return MovePlaces(tuple(self._drops), tuple(self._holds), is_parked=True)
        return None

    # -- time ----------------------------------------------------------------------------------------------------------

    def expired(self, run: Run, at: datetime) -> list[e.AnyEvent]:
        """The outcomes of steps that were refused, and have waited as long as they may."""
        found: list[e.AnyEvent] = []
        for key in [key for key in self.waiting if key in self._refused]:
            until, command, step = self._until(run, key), self.waiting[key], run.steps.get(key)
            if until is not None and until <= at and step is not None and command.spec.limit_wait is not None:
                found.append(limit_reached(step, ", ".join(command.spec.limits), command.spec.limit_wait))
        return found

    def next_end(self, run: Run) -> datetime | None:
        """The earliest time at which a waiting step has used up its `limit_wait`."""
        return min((until for key in self.waiting if (until := self._until(run, key)) is not None), default=None)

    def _until(self, run: Run, key: str) -> datetime | None:
        step, wait = run.steps.get(key), self.waiting[key].spec.limit_wait
        return None if step is None or step.limited_at is None or wait is None else step.limited_at + wait
