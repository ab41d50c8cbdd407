"""Approval of documents: a run per document that waits for days, answers questions, and is found by its approver.

A decision and a hand-over are questions with an answer (`Update`): the page that sends one learns at once whether it
was accepted. Both survive crashes, and asking again with the same id gets the same answer.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast import App, RunVar, Update, UpdateRefused, set_attributes, step, workflow

REMINDERS = 3


class Decision(msgspec.Struct, frozen=True):
    by: str
    is_approved: bool
    note: str = ""


class HandOver(msgspec.Struct, frozen=True):
    to: str


def has_a_reason(decision: Decision) -> str | None:
    """A check refuses before the workflow sees the question, without a turn."""
    return None if decision.is_approved or decision.note else "say in the note why the document is rejected"


decide = Update[Decision, str]("decide", check=has_a_reason)
hand_over = Update[HandOver, str]("hand-over")
state = RunVar[str]("state")


@step
async def tell(person: str, text: str) -> str:
    """Sends a message; here it would be a mail with an idempotency key."""
    return f"told {person}: {text}"


@workflow(accepts=(decide, hand_over))
async def approve(document: str, approver: str) -> Literal["approved", "rejected", "nobody decided"]:
    async def give_to(asked: HandOver) -> str:
        nonlocal approver
        if asked.to == approver:
            raise UpdateRefused(f"{approver} has it already")
        approver = asked.to
        set_attributes(approver=approver)
        return await tell(approver, f"please decide about {document}")

    set_attributes(approver=approver)
    hand_over.serve(give_to)  # answered whenever it is asked, beside what follows
    reminders = 0
    while reminders < REMINDERS:
        state.set(f"waiting for {approver}")
        async with decide.take(timeout="1d", default=None) as ask:
            if ask is None:
                reminders += 1
                await tell(approver, f"{document} still waits for you")
            elif ask.value.by != approver:
                ask.refuse(f"{approver} decides about {document}, not {ask.value.by}")
            else:
                ask.answer("recorded")
                return "approved" if ask.value.is_approved else "rejected"
    return "nobody decided"


app = App("sqlite:///documents.db", workflows=[approve])
