"""Turns effects of machines into facts about the runs that the engine holds.

All facts about runs come from here. A fact is built only if a listener wants its kind.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, assert_never

from holdfast.core import events as e
from holdfast.core.failure import Failure, place_of
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.step import STOPPED
from holdfast.ports import facts as t
from holdfast.ports.runs import RunRow
from holdfast.ports.telemetry import Telemetry
from holdfast.turn.effects import FIRST_TURN, Broken, Dropped, GivenBack, StepEnded, Turned
from holdfast.turn.outcome import Succeeded


class Teller(Protocol):
    """The engine of a session."""

    telemetry: Telemetry


class Held(Protocol):
    """A run that this worker holds."""

    worker: str

    @property
    def home(self) -> Teller: ...

    @property
    def run(self) -> Run: ...

    @property
    def epoch(self) -> int: ...


def _who(session: Held) -> tuple[str, str, str, int]:
    run = session.run
    return run.id, run.workflow, session.worker, session.epoch


def claimed(session: Held, *, is_new: bool = False) -> None:
    """The run is ours; taken over if its last worker was cut off in the middle of a step. `is_new`: it was created
    here."""
    telemetry = session.home.telemetry
    telemetry.refresh()  # once per claim, so that a step costs no more than a look at a set
    was_cut_off = not is_new and any(not step.is_unstarted for step in session.run.in_flight)
    kind = t.RunTakenOver if was_cut_off else t.RunClaimed
    if kind in telemetry.wanted:
        telemetry.tell(kind(*_who(session)))


def step_started(session: Held, key: str, name: str, attempt: int) -> None:
    """A body begins. The caller has checked that the fact is wanted."""
    session.home.telemetry.tell(t.StepStarted(*_who(session), key, name, attempt))


def step_ended(session: Held, ended: StepEnded, began: datetime | None, now: datetime) -> None:
    telemetry, key, outcome = session.home.telemetry, ended.key, ended.outcome
    step = session.run.steps.get(key)
    name = key if step is None else step.step
    seconds = None if began is None else (now - began).total_seconds()
    if isinstance(outcome, Succeeded):
        if t.StepCompleted in telemetry.wanted:
            telemetry.tell(t.StepCompleted(*_who(session), key, name, ended.attempt, seconds))
        return
    event = ended.event
    failure = event.failure if isinstance(event, e.AttemptFailed | e.StepFailed) else outcome.failure
    if failure.type == STOPPED:
        if t.StepStopped in telemetry.wanted:
            telemetry.tell(t.StepStopped(*_who(session), key, name, ended.attempt, failure.message))
    elif t.AttemptFailed in telemetry.wanted:
        retry_at = event.retry_at if isinstance(event, e.AttemptFailed) else None
        retry_at = event.until if isinstance(event, e.HeldBack) else retry_at
        telemetry.tell(
            t.AttemptFailed(
                *(*_who(session), key, name, ended.attempt),
                type=failure.type,
                message=failure.message,
                traceback=failure.traceback,
                place=place_of(failure),
                error=outcome.error,
                retry_at=retry_at,
                seconds=seconds,
            )
        )


def turned(session: Held, turned: Turned) -> None:
    """A turn is durable: the run ended, was paused, released or parked with it. Messages that it has not seen mean that
    signals of the last turn of a run that ended were lost."""
    telemetry, draft, unread = session.home.telemetry, turned.draft, turned.unread
    for event in draft.inputs:
        if type(event) is e.SendSettled and event.status != "delivered":
            telemetry.tell(t.SignalLost(*_who(session), f"signal {event.name} to run {event.to}", event.status))
    run = session.run
    if run.ordinal == FIRST_TURN and t.RunBegan in telemetry.wanted and not isinstance(run.end, e.Cancelled):
        telemetry.tell(t.RunBegan(*_who(session)))
    if draft.is_terminal:
        if unread > 0:
            sent = [x for x in draft.outputs if isinstance(x, e.MessageSent) and x.kind == "signal"]
            names = ", ".join(f"{x.name} to run {x.to}" for x in sent)
            what = f"{unread} of the signals of its last turn ({names})"
            why = "missing, has ended, or has another message under that id"
            telemetry.tell(t.SignalLost(*_who(session), what, why))
        _ended(session, run.end, telemetry)
    elif run.paused is not None:
        _paused(telemetry, _who(session), run.paused.reason, run.paused.detail, was_opened=True)
    elif turned.park is not None:
        given_back(session, turned.park.until, is_leaving=turned.is_leaving)


def _ended(session: Held, end: e.Terminal | None, telemetry: Telemetry) -> None:
    if isinstance(end, e.Failed):
        if t.RunFailed in telemetry.wanted:
            failure: Failure = end.failure
            said = (failure.type, failure.message, failure.traceback, place_of(failure))
            telemetry.tell(t.RunFailed(*_who(session), *said))
    elif t.RunEnded in telemetry.wanted:
        telemetry.tell(t.RunEnded(*_who(session), "completed" if isinstance(end, e.Completed) else "cancelled"))


def _paused(
    telemetry: Telemetry, who: tuple[str, str, str, int], reason: str, detail: str, *, was_opened: bool
) -> None:
    if reason == "quarantined":
        telemetry.tell(t.RunQuarantined(*who, detail))
    else:
        telemetry.tell(t.RunPaused(*who, reason, detail, was_opened))


def given_back(session: Held, until: datetime | None, *, is_leaving: bool) -> None:
    """The run is released because the worker leaves, or parked because it waits."""
    telemetry = session.home.telemetry
    if is_leaving:
        if t.RunReleased in telemetry.wanted:
            telemetry.tell(t.RunReleased(*_who(session)))
    elif t.RunParked in telemetry.wanted:
        telemetry.tell(t.RunParked(*_who(session), until))


def told(session: Held, fact: Dropped | GivenBack | Broken) -> None:
    """Other facts that a machine reports about its run."""
    telemetry = session.home.telemetry
    match fact:
        case Dropped():
            kind = t.RunFenced if fact.event == "fenced" else t.RunDropped
            telemetry.tell(kind(*_who(session), fact.why))
        case GivenBack():
            given_back(session, None, is_leaving=fact.is_leaving)
        case Broken():
            telemetry.tell(t.Trouble("its program broke", fact.error, run=session.run.id, is_known=False, is_bug=True))
        case _:
            assert_never(fact)


def close(telemetry: Telemetry, program: Program, run: str) -> None:
    """Ends a program, and reports it if its code refuses."""
    if not program.close():
        telemetry.tell(t.BodyLeftBehind(run))


def paused_unopened(telemetry: Telemetry, row: RunRow, worker: str, reason: str, detail: str) -> None:
    """A run that could not be opened is paused."""
    _paused(telemetry, (row.id, row.workflow, worker, row.epoch), reason, detail, was_opened=False)
