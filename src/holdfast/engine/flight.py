"""The bodies of one run that are in flight: started after their row is durable, each landing with one event.

They are stopped only after the turn that does without them is durable too: a refused turn leaves them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.instants import later
from holdfast.core.step import STOPPED, on_attempt_failed
from holdfast.engine import telling
from holdfast.engine.bodies import Attempt, Body, Broke, Outcome, Succeeded
from holdfast.engine.settling import Held, Settling, give_back, redacted
from holdfast.engine.wheel import Due

if TYPE_CHECKING:
    from holdfast.engine.session import Session


class Flight:
    """See the module."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bodies: dict[str, Body] = {}
        self._limits: dict[str, Due] = {}
        self._unwanted: set[str] = set()
        self._transacting = 0
        self.settling: Settling = Settling(session)

    def __bool__(self) -> bool:
        """Whether the run has to stay for a body: not for a thread that was given up, which may take for ever."""
        return len(self._bodies) > len(self._unwanted) or bool(self.settling.held)  # asked several times in a turn

    def __contains__(self, key: str) -> bool:
        return key in self._bodies or key in self.settling.keys

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the steps whose bodies run, or whose transactions are open."""
        return (*self._bodies, *self.settling.keys)

    @property
    def holds_writes_back(self) -> bool:
        """Whether a body has, or waits for, the only write transaction there is: a turn would wait for the body, and
        the body's outcome for the turn."""
        return self._transacting > 0 and not self.settling and self._session.engine.store.is_exclusive

    def start(self, command: c.RunStep) -> None:
        """Starts the body of a step whose attempt is recorded, unless nobody wants it any more."""
        session = self._session
        run = session.run
        step = run.steps.get(command.key)
        if step is None or step.is_abandoned or command.key in self:
            return
        assert run.created_at is not None
        progress = None if step.progress == b"null" else msgspec.json.decode(step.progress)
        attempt = Attempt(
            run.id, run.workflow, run.version, run.created_at, command, step.attempt, progress, run.identity
        )
        telling.step_started(session, step)
        body = session.engine.bodies.start(attempt, self._reported)
        self._bodies[command.key] = body
        self._transacting += command.spec.tx
        limit = command.timeout
        if limit is not None:

            def expire() -> None:
                if self._bodies.get(command.key) is body:
                    body.expire(f"timed out after {limit}")

            self._limits[command.key] = session.engine.wheel.at(later(session.time(), limit), expire)

    def stop(self, key: str, why: str) -> None:
        """Asks one body to end. What one that has ended wrote in an open transaction is undone."""
        self.settling.give_up(key)
        body = self._bodies.get(key)
        if body is not None:
            step = self._session.run.steps.get(key)
            if body.is_thread and not body.attempt.command.spec.tx and (step is None or not step.undo):
                self._unwanted.add(key)
            body.stop(why)

    def leave(self, why: str) -> None:
        """The run does without its bodies from now on: each is stopped, and what it still says is not heard."""
        self.settling.give_up_held()
        for key in list(self._bodies):
            self._leave(key, why)

    def withhold(self) -> list[str]:
        """Takes back the bodies that have not begun: their keys."""
        keys = [key for key, body in self._bodies.items() if body.is_withdrawn()]
        for key in keys:
            self._leave(key, "the run has ended")
        return keys

    def free_writer(self, why: str) -> None:
        """Where there is one writer, before a turn that does not wait for the bodies that have it, or wait for it."""
        if self._session.engine.store.is_exclusive:
            self.settling.give_up_held()
            for key, body in list(self._bodies.items()):
                if body.attempt.command.spec.tx:
                    self._leave(key, why)

    def _leave(self, key: str, why: str) -> None:
        """How far it was is forgotten too: another attempt may be noting that by now."""
        self._taken_out(key).leave(why)
        self._session.engine.surroundings.take_progress(self._session.run.id, key)

    def _taken_out(self, key: str) -> Body:
        body = self._bodies.pop(key)
        self._unwanted.discard(key)
        self._transacting -= body.attempt.command.spec.tx
        if key in self._limits:
            self._session.engine.wheel.take_back(self._limits.pop(key))
        return body

    def _reported(self, body: Body, outcome: Outcome) -> None:
        key = body.attempt.command.key
        if self._bodies.get(key) is not body:
            give_back(outcome)
            return
        self._taken_out(key)
        session = self._session
        if isinstance(outcome, Succeeded) and outcome.transaction is not None:
            session.engine.surroundings.take_progress(session.run.id, key)
            self.settling.hold(Held(body, outcome, outcome.transaction))
            session.landed(None)
            return
        if isinstance(outcome, Broke):
            outcome = redacted(session, outcome)
        telling.step_ended(session, key, body.attempt.number, outcome)
        session.landed(self.event_of(body, outcome))

    def event_of(self, body: Body, outcome: Outcome) -> e.AnyEvent | None:
        """What the journal will say of it; None if nothing is to be said."""
        key = body.attempt.command.key
        session = self._session
        step = session.run.steps.get(key)
        progress = session.engine.surroundings.take_progress(session.run.id, key)
        if step is None:
            return None
        if isinstance(outcome, Succeeded):
            return e.StepCompleted(key=key, value=msgspec.Raw(outcome.value))
        failure = _failure_of(body, outcome, is_wanted=not step.is_abandoned)
        if failure is None:
            return None
        event = on_attempt_failed(
            step,
            failure,
            body.attempt.command.retry,
            session.time(),
            session.engine.chance(),
            is_final=outcome.is_final or step.is_abandoned,
            not_before=outcome.not_before,
            deadline=session.run.deadline,
        )
        if progress is not None and isinstance(event, e.AttemptFailed):
            return msgspec.structs.replace(event, progress=msgspec.Raw(progress))
        return event


def _failure_of(body: Body, outcome: Broke, *, is_wanted: bool) -> Failure | None:
    """What a stopped body means; None if the run's end stopped it: then it has no outcome, and the row names it."""
    if outcome.failure.type != STOPPED or not is_wanted:
        return outcome.failure
    if not body.is_stopping:
        return Failure(type="CancelledError", message="the body cancelled itself")
    if body.stop_reason.startswith("timed out"):
        return Failure(type="TimeoutError", message=f"the attempt {body.stop_reason}")
    return None
