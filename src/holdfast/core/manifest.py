"""The manifest: what an app can run, as typed values and as JSON.

One entry for each workflow of each version. *Declared* and *observed* parts are separate: a machine has `states` and a
flow has `steps`, which are its plan. A script has neither, since its code is the plan; `checkpoints` lists what its
runs have asked for so far. Pure: the caller brings the definitions and the observed turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.core.retry import Retry
from holdfast.core.schemas import JsonSchema
from holdfast.core.specs import Part, WorkflowSpec
from holdfast.core.turn import Turn

FORMAT = 1
MOST_CHECKPOINTS = 200
"""Maximum number of checkpoints of one workflow: a script may generate names without end."""

Kind: TypeAlias = Literal["script", "machine", "flow"]
CheckpointKind: TypeAlias = Literal["step", "sleep", "signal", "topic", "update", "child"]

_NUMBERED = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often something is tried. `attempts` is None where there is no limit."""

    attempts: int | None
    first: timedelta
    factor: float
    ceiling: timedelta


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """A state of a machine or a step of a flow, as declared."""

    name: str
    kind: str
    position: int
    leads_to: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    has_undo: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Something that runs of a script asked for, in the order in which it first appeared."""

    name: str
    kind: CheckpointKind
    position: int


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One workflow of one version.

    `id` is the same in every process and release, as long as name, kind, version and declared parts are. `definition`
    is the hash of what it does: of its code, or of a flow's content. `queue` is the default queue of its runs. `retry`
    is the workflow's policy for errors outside steps; None: one pass. `timeout` limits a whole run.
    """

    id: str
    name: str
    kind: Kind
    version: str
    definition: str
    description: str
    input: JsonSchema
    output: JsonSchema
    queue: str
    retry: RetryPolicy | None
    timeout: timedelta | None
    raises: tuple[str, ...]
    is_remote: bool
    steps: tuple[ManifestPart, ...] = ()
    states: tuple[ManifestPart, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything an app can run, by name and version. `format` grows when the JSON changes in a way readers notice."""

    workflows: tuple[ManifestEntry, ...]
    step_retry: RetryPolicy
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; durations as in ISO 8601 ("PT30S")."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {"format": plain.pop("format"), **plain}


def manifest_of(entries: Iterable[ManifestEntry], step_retry: Retry) -> Manifest:
    """The entries in order, and the default policy of steps."""
    return Manifest(tuple(sorted(entries, key=lambda x: (x.name, x.version))), _policy(step_retry))


def entry_of(spec: WorkflowSpec, checkpoints: tuple[Checkpoint, ...] = ()) -> ManifestEntry:
    kind = kind_of(spec)
    parts = tuple(_part(part, position) for position, part in enumerate(spec.parts()))
    names = [part.name for part in parts]
    return ManifestEntry(
        id=hash_of(msgspec.json.encode([spec.name, kind, spec.version, names]))[:16],
        name=spec.name,
        kind=kind,
        version=spec.version,
        definition=spec.code,
        description=(spec.function.__doc__ or "").strip().partition("\n")[0],
        input=spec.arguments.schema(),
        output=spec.result.schema(),
        queue="default",
        retry=None if spec.retry == Retry.none else _policy(spec.retry),
        timeout=spec.deadline,
        raises=tuple(error.__name__ for error in spec.raises),
        is_remote=spec.is_remote,
        steps=parts if kind == "flow" else (),
        states=parts if kind == "machine" else (),
        checkpoints=checkpoints,
    )


def kind_of(spec: WorkflowSpec) -> Kind:
    """The style of a definition."""
    return spec.style or "script"


def observed(journals: Iterable[Iterable[Turn]]) -> tuple[Checkpoint, ...]:
    """What these journals asked for, each name once, in the order of first appearance."""
    found: dict[tuple[str, CheckpointKind], None] = {}
    for turns in journals:
        for turn in turns:
            for event in turn.events:
                asked = _asked(event)
                if asked is not None and len(found) < MOST_CHECKPOINTS:
                    found.setdefault(asked)
    return tuple(Checkpoint(name, kind, position) for position, (name, kind) in enumerate(found))


def _asked(event: e.AnyEvent) -> tuple[str, CheckpointKind] | None:
    match event:
        case e.StepScheduled():
            return event.step or _NUMBERED.sub("", event.key), "step"
        case e.SleepStarted():
            return _NUMBERED.sub("", event.key), "sleep"
        case e.WaitStarted():
            return event.name, event.kind
        case e.ChildStarted():
            return event.workflow, "child"
        case _:
            return None


def _part(part: Part, position: int) -> ManifestPart:
    return ManifestPart(
        part.name,
        part.kind,
        position,
        part.leads_to,
        part.needs,
        part.calls,
        _policy(part.retry) if part.retry is not None else None,
        part.timeout,
        part.has_undo,
    )


def _policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(retry.attempts, retry.first, retry.factor, retry.ceiling)
