"""The steps of one run that are in flight, by key.

A running body has been started and has not landed. A body whose writes wait in an open transaction is held until a turn
takes its value, one at a time; that turn is committed in the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from holdfast.core import events as e
from holdfast.core.commands import RunStep
from holdfast.core.instants import later
from holdfast.core.opened import OpenStep
from holdfast.core.redaction import Redaction
from holdfast.core.run import Run
from holdfast.ports.journal import Committed, Fenced, Unread
from holdfast.ports.transactions import RolledBack, Settlement
from holdfast.turn import rules
from holdfast.turn.effects import Effect, Forget, GiveUp, Start, StepEnded, Stop
from holdfast.turn.outcome import Broke, Succeeded, classify


class HeldStep(msgspec.Struct, frozen=True, gc=False):
    """A body that has returned with an open transaction."""

    started: Start
    value: bytes

    @property
    def key(self) -> str:
        return self.started.command.key


class Flight(msgspec.Struct, eq=False, gc=False):
    """See the module."""

    flying: dict[str, Start] = {}
    _unwanted: frozenset[str] = frozenset()  # of these: abandoned threads, which may take forever
    held: dict[str, HeldStep] = {}
    taken: HeldStep | None = None  # by the turn that is being written
    _broken: tuple[Start, Broke] | None = None  # its transaction could not be committed

    def __bool__(self) -> bool:
        """Whether the run must stay for a body."""
        return len(self.flying) > len(self._unwanted) or bool(self.held)

    def __contains__(self, key: str) -> bool:
        return key in self.flying or key in self.held

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the steps whose bodies run, or whose transactions are open."""
        return (*self.flying, *self.held)

    @property
    def has_writer(self) -> bool:
        """Whether a body has or waits for a transaction, and none is held."""
        return bool(self.flying) and not self.held and any(x.command.spec.tx for x in self.flying.values())

    def start(self, run: Run, command: RunStep, at: datetime) -> Start | None:
        """Begins the body of a step whose attempt is recorded, unless it is no longer wanted."""
        step = run.steps.get(command.key)
        if step is None or step.is_abandoned or command.key in self.flying or command.key in self.held:
            return None
        limit = command.timeout
        start = Start(command, step.attempt, step.progress, None if limit is None else later(at, limit))
        self.flying[command.key] = start
        return start

    def land(self, key: str) -> Start:
        """Removes a body that landed."""
        started = self.flying.pop(key, None)
        if started is None:
            raise AssertionError(f"no body of step {key} is in flight")
        if self._unwanted:
            self._unwanted -= {key}
        return started

    def hold(self, key: str, value: bytes) -> None:
        """A body has returned with its transaction open."""
        self.held[key] = HeldStep(self.land(key), value)

    def take(self) -> e.StepCompleted:
        """The outcome for this turn, which is committed in that transaction."""
        self.taken = held = self.held.pop(next(iter(self.held)))
        return e.StepCompleted(key=held.key, value=msgspec.Raw(held.value))

    def settled(self, said: Settlement, redaction: Redaction) -> list[Effect]:
        """Handles the verdict on the turn: the held outcome is done, held again, or has failed."""
        held, self.taken = self.taken, None
        if held is None:
            return []
        started = held.started
        match said:
            case Committed():
                return [StepEnded(held.key, started.attempt, Succeeded(held.value))]
            case Unread():
                self.held[held.key] = held
                return []
            case RolledBack():
                command = started.command
                broke = rules.redacted(classify(said.error, command.spec, command.retry), redaction)
                assert isinstance(broke, Broke)
                self._broken = (started, broke)
                return [StepEnded(held.key, started.attempt, broke)]
            case Fenced():
                return []

    def without_held(self, events: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
        """The inputs of a refused turn, without the outcome that was to be committed with it."""
        others = set(self.held)
        if self._broken is not None:
            others.add(self._broken[0].command.key)
        return [x for x in events if not (isinstance(x, e.StepCompleted) and x.key in others)]

    def failed_again(self, run: Run, at: datetime, chance: Callable[[], float]) -> list[e.AnyEvent]:
        """The journal's event for an attempt whose transaction could not be committed."""
        broken, self._broken = self._broken, None
        if broken is None:
            return []
        event = rules.event_of(run, broken[0].command, broken[1], None, None, at, chance)
        return [] if event is None else [event]

    def stop(self, key: str, step: OpenStep | None, why: str) -> list[Effect]:
        """Asks one body to end. If it has ended with an open transaction, its writes are rolled back."""
        effects: list[Effect] = []
        if self.held.pop(key, None) is not None:
            effects.append(GiveUp(key))
        started = self.flying.get(key)
        if started is not None:
            spec = started.command.spec
            if spec.executor == "thread" and not spec.tx and (step is None or not step.undo):
                self._unwanted |= {key}
            effects.append(Stop(key, why))
        return effects

    def forget_all(self, why: str) -> list[Effect]:
        """Ignores all bodies from now on."""
        keys = list(self.flying)
        self.flying.clear()
        self._unwanted = frozenset()
        return [Forget(key, why) for key in keys]

    def forget_writers(self, why: str) -> list[Effect]:
        """Ignores bodies that have or wait for a transaction."""
        keys = [key for key, started in self.flying.items() if started.command.spec.tx]
        for key in keys:
            self.land(key)
        return [Forget(key, why) for key in keys]

    def give_up_held(self) -> list[Effect]:
        """Rolls back what no turn has taken."""
        keys = list(self.held)
        self.held.clear()
        return [GiveUp(key) for key in keys]

    def give_up_all(self) -> list[Effect]:
        """Also rolls back what a turn has taken that was not sent."""
        effects = self.give_up_held()
        if self.taken is not None:
            effects.append(GiveUp(self.taken.key))
            self.taken = None
        return effects
