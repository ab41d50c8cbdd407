"""What is wrong with a performance, compared with an undisturbed one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast import errors
from holdfast.core.plurals import counted
from holdfast.errors import InvalidInput, UsageError
from holdfast.testing.sweep.final_state import Ending, journal_lines
from holdfast.testing.sweep.performance import ROOT, Performed
from holdfast.testing.sweep.points import MEANING, Point, said
from holdfast.testing.sweep.sweep_report import Finding

MOST = 6
"""Differences that a finding lists."""

REPEAT = (
    "a step may run again after a crash. Make the effect the same however often it happens (an upsert, or the other "
    "side's idempotency key: current().idempotency_key), or declare @step(once=True) and handle OutcomeUnknown."
)
REPLAY = (
    "the body of a workflow runs again from its beginning after a crash: let it depend on its arguments, on the "
    "results of steps and on Holdfast's verbs (now(), rng(), uuid4()) only."
)
SETS = " The order of a set differs in every process: iterate over sorted(…)."
SAME_MOMENT = (
    "what comes at the same moment may come in any order after a crash: gather the results in the order of the calls "
    "(`asyncio.gather`, `each`) before you combine them."
)

_MISTAKES = {name for name in errors.__all__ if issubclass(getattr(errors, name), UsageError | InvalidInput)}


def at_rest(performed: Performed) -> list[Finding]:
    """What is wrong with the run without any disturbance."""
    ending, found = performed.ending, _noted(performed)
    journal = journal_lines(performed.stage.journal(), ROOT)
    if ending.paused:
        found.append(Finding(f"the run is {ending.status}", details=[ending.paused], journal=journal))
    for fact in sorted(ending.facts):
        kind = _mistake(fact)
        if kind:
            found.append(Finding(f"the code is wrong: {kind}", details=[fact], journal=journal))
    found += _once(performed)
    return found


def _mistake(fact: str) -> str:
    _, is_failure, failure = fact.partition("failed with ")
    if not is_failure:
        return ""
    names = failure.replace(":", " ").replace(".", " ").split()
    return next((name for name in names if name in _MISTAKES), "")


def again(reference: Performed, performed: Performed) -> list[Finding]:
    """What is wrong with a second undisturbed run in the same process."""
    differences = _differences(reference.ending, performed.ending)
    if not differences:
        return []
    what = "a second run in the same process takes a different path: the workflow keeps something in memory"
    return [Finding(what, REPLAY, details=differences)]


def disturbed(reference: Performed, performed: Performed, ordered: tuple[Point, ...]) -> list[Finding]:
    """What is wrong with a run that was disturbed."""
    meaning = MEANING[ordered[0].kind] if len(ordered) == 1 else ""
    journal = journal_lines(performed.stage.rows_at_crash, ROOT)
    return [
        replace(finding, point=said(ordered), meaning=meaning, journal=journal)
        for finding in (*_noted(performed), *_once(performed), *_compared(reference, performed))
    ]


def _compared(reference: Performed, performed: Performed) -> Iterator[Finding]:
    stage, ending = performed.stage, performed.ending
    if ending.paused:
        yield Finding(f"the run does not continue: it is {ending.status}", REPLAY, details=[ending.paused])
        return
    if performed.waiting:
        yield Finding("the run no longer ends", details=[f"it is {performed.waiting}"])
        return
    if any(point.kind == "cancel after" for point in stage.done):
        if ending.status != "cancelled":
            yield Finding(f"the run was cancelled, and ended {ending.status}")
        return
    if not stage.is_over:
        yield Finding(
            "the run takes a different path each time: a point of the first run was not reached again", REPLAY
        )
        return
    if ending.is_in_doubt and not reference.ending.is_in_doubt:
        return  # a once=True step was cut off, and the workflow was told: what it makes of that is its own
    step = next((point.step for point in stage.done if point.step), "")
    differences = _differences(reference.ending, ending)
    if differences:
        advice = SAME_MOMENT if stage.done[0].kind == "late" else REPEAT if step else REPLAY
        what = f"the run ends differently ({reference.ending.status}, then {ending.status})"
        yield Finding(what, advice, step, details=differences)
    for label, (picture, shown) in performed.outside.items():
        expected, wanted = reference.outside.get(label, (picture, shown))
        if picture != expected:
            what = f"step {step} is not safe to repeat" if step else "effects happen twice, or not at all"
            yield Finding(what, REPEAT, step, details=[f"{label} is {shown}", f"undisturbed it is {wanted}"])
            return


def _noted(performed: Performed) -> list[Finding]:
    return [Finding(what, advice) for what, advice in performed.stage.notes.items()]


def _once(performed: Performed) -> list[Finding]:
    executions = performed.stage.executions
    began = Counter((x.run, x.key, x.step) for x in executions if x.is_once)
    found = [
        Finding(f"step {name} is declared once=True and ran {counted(times, 'time')}", step=name)
        for (_, _, name), times in began.items()
        if times > 1
    ]
    found += [
        Finding(f"step {x.step} ran again after its outcome was durable", step=x.step)
        for x in executions
        if x.has_outcome
    ]
    return found


def _differences(reference: Ending, ending: Ending) -> list[str]:
    if (reference.status, reference.result, reference.facts) == (ending.status, ending.result, ending.facts):
        return []
    missing, more = reference.facts - ending.facts, ending.facts - reference.facts
    lines = [*_listed("only undisturbed", missing), *_listed("only here", more)]
    return lines or [f"{reference.status} {reference.result}, then {ending.status} {ending.result}"]


def _listed(label: str, facts: Counter[str]) -> Iterable[str]:
    shown = [text if len(text) <= 200 else text[:199] + "…" for text in sorted(facts)]
    yield from (f"{label}: {text}" for text in shown[:MOST])
    if len(shown) > MOST:
        yield f"{label}: {len(shown) - MOST} more"
