"""Approval gates: a person decides, and the run records who, when and why.

A gate waits for a signal named after its step. The answer is `true` or `false`, or an object with `approved` and, if
wanted, `by` and `why`; anything else is not an answer, and the gate keeps waiting. While it waits, what it asks, whom
and until when is shown under the step's name (`Run.get`, `holdfast show`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.flow.evaluation import evaluate, is_true
from holdfast.authoring.flow.flow_definition import Approve
from holdfast.authoring.script.calls import NO_DEFAULT, WaitCall
from holdfast.authoring.script.place import Place
from holdfast.core.codec import encode_plain
from holdfast.core.commands import Expose
from holdfast.core.guards import is_dict
from holdfast.core.instants import later
from holdfast.core.payload import Shape

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram


class Answer(msgspec.Struct, frozen=True):
    """A signal with its sender."""

    value: Any
    sender: str


async def approval(
    program: ScriptProgram, gate: Approve, name: str, key: str, known: Mapping[str, Any]
) -> dict[str, Any]:
    """The decision: `approved`, `by`, `at`, `why`."""
    waits, reason = 0, None
    for one in gate.gates():
        if one.when is not None and not is_true(one.when, known):
            return _decision(program, is_approved=True, by=None, why="no approval is needed")
        until = None if one.timeout is None else later(program.at, one.timeout)
        reason = one.why if one.why is not None else reason  # the next one is told what the first was told
        asked = {
            "signal": name,
            "by": evaluate(one.by, known),
            "why": None if reason is None else evaluate(reason, known),
            "until": until,
        }
        program.ask(Expose(name=name, value=encode_plain(asked, name)))
        while True:
            answer = await _answer(program, name, f"{key}.{waits}" if waits else key, until)
            waits += 1
            if answer is None:
                break
            decision = _read(program, answer)
            if decision is not None:
                return decision
        if not isinstance(one.then, Approve):
            why = f"no answer in time: {one.then}"
            return _decision(program, is_approved=one.then == "approve", by=None, why=why)
    raise AssertionError("a gate ends with a verdict")


async def _answer(program: ScriptProgram, name: str, key: str, until: datetime | None) -> Answer | None:
    """The next signal; None if the time expires first."""
    answer: Answer | None = await WaitCall(
        program,
        program.take_key(key),
        HERE,
        kind="signal",
        name=name,
        shape=ANSWER,
        timeout=None if until is None else max(until - program.at, until - until),
        default=NO_DEFAULT if until is None else None,
        has_sender=True,
    )
    return answer


def _read(program: ScriptProgram, answer: Answer) -> dict[str, Any] | None:
    value = answer.value
    if isinstance(value, bool):
        return _decision(program, is_approved=value, by=answer.sender or None, why=None)
    if is_dict(value) and isinstance(value.get("approved"), bool):
        by, why = value.get("by"), value.get("why")
        return _decision(program, is_approved=value["approved"], by=by or answer.sender or None, why=why)
    return None


def _decision(program: ScriptProgram, *, is_approved: bool, by: Any, why: Any) -> dict[str, Any]:
    return {"approved": is_approved, "by": by, "at": program.at.isoformat(), "why": why}


ANSWER: Shape[Any] = Shape(Answer, what="an answer to an approval")
HERE = Place(approval.__code__, 0)
