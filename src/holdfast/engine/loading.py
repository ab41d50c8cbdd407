"""From rows to a program that stands where its journal ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.core import events as e
from holdfast.core.passes import last_beginning
from holdfast.core.program import Program
from holdfast.core.run import Run, fold
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Row, Turn, decode_rows
from holdfast.engine.registry import Registry

READ_BY_PROGRAMS = (
    e.Started,
    e.Continued,
    e.StepCompleted,
    e.SignalReceived,
    e.TopicReceived,
    e.ChildEnded,
)


@dataclass(slots=True)
class Loaded:
    """A run, its fold and its program."""

    run: Run
    spec: WorkflowSpec
    program: Program


def blobs_wanted(turns: Iterable[Turn]) -> set[str]:
    """Names of the blobs a program will read."""
    return {x.blob for turn in turns for x in turn.events if isinstance(x, READ_BY_PROGRAMS) and x.blob}


def inline(event: e.AnyEvent, blobs: Mapping[str, bytes]) -> e.AnyEvent:
    """The event with its payload in place."""
    if isinstance(event, READ_BY_PROGRAMS) and event.blob:
        return msgspec.structs.replace(event, value=msgspec.Raw(blobs[event.blob]), blob="")
    return event


def load(
    run_id: str, turns: Sequence[Turn], blobs: Mapping[str, bytes], registry: Registry, settings: Settings
) -> Loaded | None:
    """Replays a journal. None if this process does not hold the definition. Raises what stops a run: `Diverged`,
    `NeverWaits`, `NotDecodable`, `CorruptJournal`."""
    run = fold(run_id, turns)
    spec = registry.find(run.workflow, run.version)
    if spec is None:
        return None
    return Loaded(run, spec, replayed(run_id, turns, blobs, spec, registry, settings))


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
        program.replay(rest)
    except BaseException:
        program.close()
        raise
    return program


def decode(rows: Sequence[Row]) -> list[Turn]:
    """The turns of a whole journal, its chain checked."""
    return decode_rows(rows)
