"""What a turn settles of the updates that were put to its run. Pure.

The program answers, refuses or leaves; an operator drops; and an end, or a `continue_as` that leaves a question behind
which was taken, refuses whatever is open. So no question outlives the run that it was put to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.core import events as e
from holdfast.core.references import references_of
from holdfast.core.run import Run
from holdfast.ports.updates import Outcome, UpdateAnswer
from holdfast.turn.draft import Draft


def questions(run: Run, draft: Draft) -> dict[str, str]:
    """The updates that are open when the turn begins, and those that it takes in, by message: their names."""
    received = {x.message: x.name for x in draft.inputs if type(x) is e.UpdateReceived}
    return {**run.asked, **received}


def settled(run: Run, draft: Draft, asked: dict[str, str]) -> tuple[UpdateAnswer, ...]:
    """What the turn, which the fold has taken, makes of them."""
    answers = {x.message: x for x in (*_answered(draft), *_dropped(draft))}
    still = {} if draft.is_terminal else run.asked
    why = _why(run)
    for message in asked:
        if message not in answers and message not in still:
            answers[message] = refusal(message, "ended", why)
    return tuple(answers.values())


def at_end(run: Run, unread: Iterable[str]) -> tuple[UpdateAnswer, ...]:
    """What an end that a run's program is not asked about makes of the updates that are still in its inbox."""
    return tuple(refusal(message, "ended", _why(run)) for message in unread)


def refusal(message: str, outcome: Outcome, why: str) -> UpdateAnswer:
    """No answer, and why."""
    return UpdateAnswer(message, outcome, msgspec.json.encode(why))


def _why(run: Run) -> str:
    if run.end is None:
        return "the run continued with different arguments before it answered"
    return f"the run {run.status.value} before it answered"


def _answered(draft: Draft) -> Iterator[UpdateAnswer]:
    for event in draft.outputs:
        if type(event) is e.Answered:
            yield answer_of(event)


def answer_of(event: e.Answered) -> UpdateAnswer:
    """The answer as a store keeps it."""
    return UpdateAnswer(event.message, event.outcome, bytes(event.value), event.blob, references_of((event,)))


def _dropped(draft: Draft) -> Iterator[UpdateAnswer]:
    for event in draft.inputs:
        if type(event) is e.MessageDropped and event.asked:
            reason = f": {event.reason}" if event.reason else ""
            yield refusal(event.message, "dropped", f"{event.actor or 'an operator'} dropped it{reason}")
