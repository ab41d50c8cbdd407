"""The updates that a turn settles. Pure.

The program answers, refuses or leaves one; an operator drops one; and an end, or a `continue_as` after a question was
taken, refuses all open ones. So no question outlives its run.
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
    """The open updates at the beginning of the turn and those that it takes in: message to name."""
    received = {x.message: x.name for x in draft.inputs if type(x) is e.UpdateReceived}
    return {**run.asked, **received}


def settled(run: Run, draft: Draft, asked: dict[str, str]) -> tuple[UpdateAnswer, ...]:
    """The outcomes of these in the turn, which the fold has taken."""
    answers = {x.message: x for x in (*_answered(draft), *_dropped(draft))}
    still = {} if draft.is_terminal else run.asked
    why = _why(run)
    for message in asked:
        if message not in answers and message not in still:
            answers[message] = refusal(message, "ended", why)
    return tuple(answers.values())


def at_end(run: Run, unread: Iterable[str]) -> tuple[UpdateAnswer, ...]:
    """The outcomes of unread updates at an end that does not involve the program."""
    return tuple(refusal(message, "ended", _why(run)) for message in unread)


def refusal(message: str, outcome: Outcome, why: str) -> UpdateAnswer:
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
    """The answer in stored form."""
    return UpdateAnswer(event.message, event.outcome, bytes(event.value), event.blob, references_of((event,)))


def _dropped(draft: Draft) -> Iterator[UpdateAnswer]:
    for event in draft.inputs:
        if type(event) is e.MessageDropped and event.asked:
            reason = f": {event.reason}" if event.reason else ""
            yield refusal(event.message, "dropped", f"{event.actor or 'an operator'} dropped it{reason}")
