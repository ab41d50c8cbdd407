"""Random journals that a run could have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.status import Status
from tests.unit.core.journals import (
    BOOM,
    Journal,
    at,
    attempt_failed,
    done,
    raw,
    signal,
    started,
    step,
)


def child(key: str = "ship", **more: Any) -> e.ChildStarted:
    return e.ChildStarted(key=key, run=f"r/{key}", workflow="shipping", **more)


def child_ended(key: str = "ship", run: str = "") -> e.ChildEnded:
    return e.ChildEnded(key=key, run=run or f"r/{key}", status="completed")


KEYS = st.sampled_from(["a", "b", "c", "d"])

ASKS = (e.StepScheduled, e.SleepStarted, e.WaitStarted, e.ChildStarted)


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    """A journal as an engine might write it: every event is one that may follow, and no key is given out twice."""
    journal = Journal(started(deadline=datetime(2027, 1, 1, tzinfo=UTC)))
    asked: set[str] = set()
    for messages in range(draw(st.integers(0, 12))):
        run = journal.run
        if run.end is not None:
            break
        events: list[e.AnyEvent] = []
        if run.started_at is None or draw(st.booleans()):
            events.append(e.Claimed(worker=draw(KEYS), restarted=tuple(s.key for s in run.in_flight)))
        key = draw(KEYS)
        choices: list[e.AnyEvent] = [
            step(key, undo=True),
            step(f"{key}!", undoes=key),
            done(key),
            e.StepFailed(key=key, failure=BOOM),
            e.StepAbandoned(key=key),
            e.SleepStarted(key=f"nap {key}", until=at(99)),
            e.TimerFired(key=f"nap {key}"),
            e.WaitStarted(key=f"wait {key}", name="go"),
            signal(f"m{messages}"),
            e.WaitEnded(key=f"wait {key}", message=f"m{draw(st.integers(0, 5))}"),
            child(f"child {key}", on_cancel="cancel"),
            child_ended(f"child {key}"),
            e.Kept(keys=(key,)),
            e.Released(worker="w", unstarted=(key,)),
            e.CancelRequested(grace_until=at(50)),
            e.RetryPlanned(failure=BOOM, at=at(40)),
            e.PassStarted(number=2),
            e.Continued(workflow="order"),
            e.Exposed(name=key),
            e.Resumed(),
        ]
        if run.status is not Status.PAUSED:
            choices += [e.Paused(reason="operator"), attempt_failed(key), e.Completed(value=raw("1"))]
        else:
            choices = [e.Resumed(), signal(f"m{messages}"), e.Cancelled()]
        choices = [x for x in choices if not (isinstance(x, ASKS) and x.key in asked)]
        events += draw(st.lists(st.sampled_from(choices[:-1]), max_size=3, unique_by=id))
        asked |= {x.key for x in events if isinstance(x, ASKS)}
        if draw(st.integers(0, 9)) == 0:
            events.append(choices[-1])
        paused = any(isinstance(x, e.Paused) for x in events)
        journal.turn(*[x for x in events if not (paused and isinstance(x, e.Completed | e.Continued))])
    return journal
