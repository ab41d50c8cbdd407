"""The bodies of one run that are in flight: started after their row is durable, each landing with one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
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
        self._transacting = 0
        self.settling: Settling = Settling(session)

    def __bool__(self) -> bool:
        return bool(self._bodies or self.settling.held)  # asked several times in a turn

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

            self._limits[command.key] = session.engine.wheel.at(session.time() + limit, expire)

    def stop(self, key: str, why: str) -> None:
        """Asks one body to end. What one that has ended wrote in an open transaction is undone."""
        self.settling.give_up(key)
        body = self._bodies.get(key)
        if body is not None:
            body.stop(why)

    def stop_all(self, why: str) -> None:
        """Asks every body to end, and undoes what no turn has taken in."""
        self.settling.give_up_held()
        for body in list(self._bodies.values()):
            body.stop(why)

    def forget(self) -> None:
        """Late outcomes are no longer wanted, nor how far the bodies were: whoever has the run now notes that."""
        session = self._session
        for key in self._bodies:
            session.engine.surroundings.take_progress(session.run.id, key)
        for key in list(self._limits):
            self._unlimited(key)
        self._bodies.clear()
        self._transacting = 0
        self.settling.give_up_held()

    def _reported(self, body: Body, outcome: Outcome) -> None:
        key = body.attempt.command.key
        if self._bodies.get(key) is not body:
            give_back(outcome)
            return
        del self._bodies[key]
        self._unlimited(key)
        self._transacting -= body.attempt.command.spec.tx
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

    def _unlimited(self, key: str) -> None:
        if key in self._limits:
            self._session.engine.wheel.take_back(self._limits.pop(key))

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
