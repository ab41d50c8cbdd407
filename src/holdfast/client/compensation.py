"""Finishes a rollback by hand: a new run undoes what an ended run of a machine left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.authoring.handle import Run
from holdfast.authoring.machine.undo_plan import SUFFIX, Left, undo_key
from holdfast.authoring.script.place import place
from holdfast.authoring.script.workflows import Call
from holdfast.client.operator_acts import check_whole
from holdfast.client.start_options import StartOptions
from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.references import names_of, payload_of
from holdfast.core.turn import decode_rows
from holdfast.errors import Conflict, RunNotFound, UnknownWorkflow
from holdfast.ports.runs import RunRow
from holdfast.turn.source import load

if TYPE_CHECKING:
    from holdfast.client.client import Client


async def compensate(client: Client, run_id: str, *, by_hand: bool = False) -> Run[list[str]]:
    """Starts the run that undoes what `run_id` left, or returns the existing one. After one that failed, another undoes
    what that one left."""
    row = await client.store.get(run_id)
    if row is None:
        raise RunNotFound(f"no run {run_id!r} in {client.store.url}")
    if not row.status.is_terminal:
        raise Conflict(f"run {run_id} is {row.status.value}: only a run that has ended has a rollback to finish")
    left: list[Left] = await _left(client, row)
    spec = client.registry.find(f"{row.workflow}{SUFFIX}", row.version)
    if left and spec is None:
        raise UnknownWorkflow(
            f"run {run_id} is of {row.workflow!r}, which is not a machine of this app, so it has no undo here"
        )
    number = 1
    while left and spec is not None:
        chosen = f"{run_id}~undo{number if number > 1 else ''}"
        earlier = await client.store.get(chosen)
        if earlier is None or not earlier.status.is_terminal or earlier.status.value == "completed":
            call: Call[list[str]] = Call(spec, spec.arguments.encode((run_id, left), {}), place(1))
            return await client.start(call, StartOptions(id=chosen, by_hand=by_hand))
        undone = await _completed(client, earlier)
        left = [one for one in left if undo_key(one.key) not in undone]
        number += 1
    raise Conflict(f"run {run_id} left nothing undone")


async def _completed(client: Client, row: RunRow) -> set[str]:
    """The steps that a run completed, by key."""
    turns = (await load(client.store, row.no, row.id)).turns
    return {event.key for turn in turns for event in turn.events if isinstance(event, e.StepCompleted)}


async def _left(client: Client, row: RunRow) -> list[Left]:
    turns = decode_rows((await client.store.read({row.no: 1}))[row.no])
    check_whole(fold(row.id, turns), "undone by hand")
    asked: dict[str, e.StepScheduled] = {}
    done: dict[str, e.StepCompleted] = {}
    for turn in turns:
        for event in turn.events:
            facts: Any = event.facts if isinstance(event, e.Adopted) else (event,)
            for fact in facts:
                if isinstance(fact, e.StepScheduled):
                    asked[fact.key] = fact
                elif isinstance(fact, e.StepCompleted):
                    done[fact.key] = fact
    end = turns[-1].events[-1]
    keys = end.undone if isinstance(end, e.Failed | e.Cancelled) else ()
    found = [(asked[key], done[key]) for key in keys if key in asked and key in done]
    blobs = await client.store.get_blobs({name for pair in found for event in pair for name in names_of(event)})

    def text(event: e.Carrier) -> str:
        return payload_of(event, blobs).decode()

    return [Left(step.key, step.step or step.key, text(step), text(result)) for step, result in found]
