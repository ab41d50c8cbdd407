"""From rows to a program that stands where its journal ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.core import events as e
from holdfast.core.passes import last_beginning, next_beginning
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Turn
from holdfast.engine import telling
from holdfast.engine.registry import Registry

READ_BY_PROGRAMS = (
    e.Started,
    e.Continued,
    e.StepCompleted,
    e.SignalReceived,
    e.TopicReceived,
    e.ChildEnded,
)


def blobs_wanted(turns: Iterable[Turn]) -> set[str]:
    """Names of the blobs a program will read."""
    wanted: set[str] = set()
    for turn in turns:
        for event in turn.events:
            facts = event.facts if isinstance(event, e.Adopted) else (event,)
            wanted.update(x.blob for x in facts if isinstance(x, READ_BY_PROGRAMS) and x.blob)
    return wanted


def blobs_named(turns: Iterable[Turn]) -> set[str]:
    """Names of all the blobs that hold payloads of these turns, whoever reads them."""
    return {
        fact.blob
        for turn in turns
        for event in turn.events
        for fact in (event.facts if isinstance(event, e.Adopted) else (event,))
        if isinstance(fact, e.Carrier) and fact.blob
    }


def inline(event: e.AnyEvent, blobs: Mapping[str, bytes]) -> e.AnyEvent:
    """The event with its payload in place."""
    if isinstance(event, e.Adopted):
        facts: Any = tuple(inline(fact, blobs) for fact in event.facts)
        return e.Adopted(facts=facts)
    if isinstance(event, READ_BY_PROGRAMS) and event.blob:
        return msgspec.structs.replace(event, value=msgspec.Raw(blobs[event.blob]), blob="")
    return event


def replayed(
    run_id: str,
    turns: Sequence[Turn],
    blobs: Mapping[str, bytes],
    spec: WorkflowSpec,
    registry: Registry,
    settings: Settings,
) -> Program:
    """The program of the pass now running."""
    if blobs:
        turns = [msgspec.structs.replace(t, events=tuple(inline(x, blobs) for x in t.events)) for t in turns]
    beginning, rest = last_beginning(run_id, turns)
    program = registry.program(spec, beginning, settings)
    try:
        if rest:
            program.replay(rest)
    except BaseException:
        close(program, run_id)
        raise
    return program


def begun_anew(
    run: Run, start: e.Continued, blobs: Mapping[str, bytes], registry: Registry, settings: Settings
) -> Program | None:
    """The program of the life that begins with `continue_as`, from memory; None if its journal has to be read."""
    spec = registry.of(run)
    start = cast("e.Continued", inline(start, blobs)) if start.blob in blobs else start
    if spec is None or start.blob or any(signal.blob for signal in run.buffered.values()):
        return None
    return registry.program(spec, next_beginning(run, start), settings)


def close(program: Program, run_id: str) -> None:
    """Ends a program, and says so if its code refuses."""
    if not program.close():
        telling.refused_to_end(run_id)
