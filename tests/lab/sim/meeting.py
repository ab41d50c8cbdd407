"""What a turn shows to have happened, in the words of the `sometimes` counters: a campaign has to meet each of them."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.batch.batch_plan import NAME as BATCH
from holdfast.core import events as e
from holdfast.core import rounds
from holdfast.core.run import Run
from holdfast.core.turn import Turn

BY_KIND: dict[type[e.Event], str] = {
    e.PassStarted: "workflow tried again",
    e.DeadlineReached: "deadline passed",
    e.Continued: "run begun anew",
    e.TopicReceived: "publication heard",
    e.AttributesSet: "attribute set",
}
BY_WORKFLOW = {BATCH: "batch completed", "bouquet": "flow completed", "parcels": "machine completed"}
BY_MESSAGE = {"cancel": "child cancelled with its parent", "signal": "signal between runs", "publish": "run published"}

SETTLED = {"delivered": "signal awaited and delivered", "conflict": "signal told as a conflict"}

CONSTRUCTS = (
    *BY_KIND.values(),
    *BY_WORKFLOW.values(),
    *BY_MESSAGE.values(),
    "step undone",
    "signal told as lost",
    "signal awaited and delivered",
    "signal told as a conflict",
    "step timed out",
    "cleaned up after a cancel",
    "grace ran out",
    "child of an earlier life cancelled",
    "awaited child called off",
    "cancelled twice",
    "round given",
    "body left by an end",
    "call in pieces",
    "piece stored before",
)


def met_in(run: Run, turn: Turn) -> Iterator[str]:
    """What the turn shows; `run` is the fold before it."""
    for event in turn.events:
        if isinstance(event, e.Completed | e.Failed | e.Cancelled) and event.left:
            yield "body left by an end"
        match event:
            case e.Completed() if run.workflow in BY_WORKFLOW:
                yield BY_WORKFLOW[run.workflow]
            case e.MessageSent():
                yield BY_MESSAGE[event.kind]
                if event.kind == "cancel" and _is_of_an_earlier_life(run, event.to):
                    yield "child of an earlier life cancelled"
            case e.SendSettled():
                yield SETTLED.get(event.status, "signal told as lost")
            case e.StepScheduled():
                if event.undoes:
                    yield "step undone"
                if event.pieces:
                    yield "call in pieces"
            case e.StepFailed() if event.failure.type == "TimeoutError":
                yield "step timed out"
            case e.StepCompleted() if run.cancel is not None:
                yield "cleaned up after a cancel"
            case e.ChildEnded(status="cancelled") if run.cancel is None and run.past_deadline is None:
                yield "awaited child called off"
            case e.CancelRequested() if run.cancel is not None:
                yield "cancelled twice"
            case e.SignalReceived(name=rounds.ROUND) if run.round:
                yield "round given"
            case e.Cancelled() if event.imposed and run.cancel is not None:
                yield "grace ran out"
            case _ if type(event) in BY_KIND:
                yield BY_KIND[type(event)]
            case _:
                pass


def _is_of_an_earlier_life(run: Run, child: str) -> bool:
    return run.workflow != BATCH and not child.startswith(f"{run.identity}/")
