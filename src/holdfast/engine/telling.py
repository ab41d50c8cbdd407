"""What the engine says in the log: one line for each thing that happens to a run, with the run's fields.

The one seam for it. Callers say what happened; level, words and fields are chosen here, and nothing is put together
unless somebody listens.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol, assert_never

from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.ports.journal import Park
from holdfast.ports.runs import RunRow
from holdfast.turn.draft import Draft
from holdfast.turn.effects import Broken, Dropped, GivenBack
from holdfast.turn.outcome import Outcome, Succeeded

LOG = logging.getLogger("holdfast.worker")


class Held(Protocol):
    """A run that this worker holds."""

    worker: str

    @property
    def run(self) -> Run:
        """Its fold."""
        ...

    @property
    def epoch(self) -> int:
        """Of its lease."""
        ...


def fields(session: Held, event: str, **more: Any) -> dict[str, Any]:
    """What every line carries."""
    return {
        "event": event,
        "run": session.run.id,
        "workflow": session.run.workflow,
        "worker": session.worker,
        "epoch": session.epoch,
        **more,
    }


def claimed(session: Held, *, is_new: bool = False) -> None:
    """The run is ours; `taken over` if somebody was cut off in the middle of a step. `is_new`: it was made here."""
    if LOG.isEnabledFor(logging.INFO):
        was_cut_off = not is_new and any(not step.is_unstarted for step in session.run.in_flight)
        how = "taken over" if was_cut_off else "claimed"
        LOG.info("run %s: %s", session.run.id, how, extra=fields(session, how))


def step_started(session: Held, key: str, attempt: int) -> None:
    """A body begins."""
    if LOG.isEnabledFor(logging.INFO):
        more = fields(session, "step started", step=key, attempt=attempt)
        LOG.info("run %s: step %s started, attempt %d", session.run.id, key, attempt, extra=more)


def step_ended(session: Held, key: str, attempt: int, outcome: Outcome) -> None:
    """A body ended."""
    if LOG.isEnabledFor(logging.INFO):
        more = fields(session, "step ended", step=key, attempt=attempt)
        how = "completed"
        if not isinstance(outcome, Succeeded):
            how = f"failed, attempt {attempt}: {outcome.failure.type}: {outcome.failure.message[:200]}"
        LOG.info("run %s: step %s %s", session.run.id, key, how, extra=more)


def turned(session: Held, draft: Draft, park: Park | None, *, is_leaving: bool, unread: int = 0) -> None:
    """A turn is durable: the run ended, was paused, given back or parked with it. `unread`: messages that it has not
    seen; of a run that ended they tell that signals of this very turn were lost."""
    for event in draft.inputs:
        if type(event) is e.SendSettled and event.status != "delivered":
            _lost(session, f"signal {event.name} to run {event.to}", event.status)
    if draft.is_terminal and unread > 0:
        sent = [f"{x.name} to run {x.to}" for x in draft.outputs if isinstance(x, e.MessageSent) and x.kind == "signal"]
        _lost(session, f"{unread} of the signals of its last turn ({', '.join(sent)})", "missing, or has ended")
    if not LOG.isEnabledFor(logging.INFO):
        return
    run = session.run
    if isinstance(run.end, e.Failed):
        why = f"{run.end.failure.type}: {run.end.failure.message[:300]}"
        LOG.warning("run %s: failed: %s", run.id, why, extra=fields(session, "finished"))
    elif draft.is_terminal:
        LOG.info("run %s: %s", run.id, run.status.value, extra=fields(session, "finished"))
    elif run.paused is not None:
        LOG.warning(
            "run %s: paused (%s): %s", run.id, run.paused.reason, run.paused.detail, extra=fields(session, "paused")
        )
    elif park is not None:
        given_back(session, park, is_leaving=is_leaving)


def _lost(session: Held, what: str, why: str) -> None:
    LOG.warning(
        "run %s: %s was not delivered: the run is %s", session.run.id, what, why, extra=fields(session, "signal lost")
    )


def given_back(session: Held, park: Park | None, *, is_leaving: bool) -> None:
    """The run is released because the worker leaves, or parked because it waits."""
    if LOG.isEnabledFor(logging.INFO):
        how = "released" if is_leaving else "parked"
        until = (
            f" until {park.until:%Y-%m-%d %H:%M:%S} UTC" if park is not None and park.until and not is_leaving else ""
        )
        LOG.info("run %s: %s%s", session.run.id, how, until, extra=fields(session, how))


def told(session: Held, fact: Dropped | GivenBack | Broken) -> None:
    """What else a machine says of its run."""
    match fact:
        case Dropped():
            LOG.warning("run %s: %s; dropped", session.run.id, fact.why, extra=fields(session, fact.event))
        case GivenBack():
            given_back(session, None, is_leaving=fact.is_leaving)
        case Broken():
            LOG.error("run %s: its program broke", session.run.id, exc_info=fact.error)
        case _:
            assert_never(fact)


def close(program: Program, run: str) -> None:
    """Ends a program, and says so if its code refuses."""
    if not program.close():
        refused_to_end(run)


def snapshot_dropped(run: str, why: Exception) -> None:
    """A snapshot does not hold."""
    LOG.warning(
        "run %s: its snapshot is of no use and is dropped, the journal is read instead: %s",
        run,
        why,
        extra={"event": "snapshot dropped", "run": run},
    )


def refused_to_end(run: str) -> None:
    """A program was closed and its code would not end: it stays in memory, and can do nothing any more."""
    LOG.warning(
        "run %s: its body would not end when it left memory (`except BaseException` in a loop, or real work in a `def` "
        "workflow); it is left behind and can do nothing durable",
        run,
        extra={"event": "left behind", "run": run},
    )


def paused_unopened(row: RunRow, worker: str, reason: str, detail: str) -> None:
    """A run that could not even be opened is paused."""
    more = {"event": "paused", "run": row.id, "workflow": row.workflow, "worker": worker, "epoch": row.epoch}
    LOG.error("run %s: paused (%s): %s", row.id, reason, detail, extra=more)
