"""The declared plan of a run (a flow's steps or a machine's states) with the state of each part."""

from __future__ import annotations

from typing import Any

from holdfast.client.inspect.objects import machine_object
from holdfast.client.inspect.story import Story
from holdfast.core import events as e
from holdfast.core.entry import Entry
from holdfast.core.guards import is_dict
from holdfast.core.specs import Part, WorkflowSpec

_STATES = {
    "open": "open",
    "not begun": "open",
    "completed": "completed",
    "received": "completed",
    "woke": "completed",
    "failed": "failed",
    "timed out": "failed",
    "cut off": "open",
}
"""The state of a node for each outcome of an entry."""


def graph_object(story: Story, spec: WorkflowSpec) -> dict[str, Any] | None:
    """Nodes in the order of their declaration; None for a script, whose code is its plan."""
    if not spec.style:
        return None
    machine = machine_object(story.view.id, story.turns)
    path = [visit["state"] for visit in machine["path"]] if machine is not None else []
    path += _final(spec, path, story)
    nodes = [_node(part, position, story, path) for position, part in enumerate(spec.parts())]
    return {"kind": spec.style, "nodes": nodes, "path": path}


def _final(spec: WorkflowSpec, path: list[str], story: Story) -> list[str]:
    """The final state that a machine has reached. It is not a step: only the result, which has its name, shows it."""
    if not path or not isinstance(story.end, e.Completed):
        return []
    finals = [part.name for part in spec.parts() if part.kind == "final"]
    named = [name for name in finals if is_dict(story.result) and [*story.result] == [name]]
    return named or (finals if len(finals) == 1 else [])


def _node(part: Part, position: int, story: Story, path: list[str]) -> dict[str, Any]:
    entries = [entry for entry in story.line.entries if _is_of(entry, part.name)]
    last = entries[-1] if entries else None
    visits = path.count(part.name)
    state = "not reached"
    if last is not None:
        state = "waiting" if last.kind != "step" and last.goes_on else _STATES.get(last.outcome, "completed")
    elif visits:
        state = "open" if path[-1] == part.name and story.end is None else "completed"
    return {
        "name": part.name,
        "kind": part.kind,
        "position": position,
        "needs": part.needs,
        "leads_to": part.leads_to,
        "state": state,
        "key": last.key if last is not None else None,
        "visits": visits or len({entry.key for entry in entries}),
    }


def _is_of(entry: Entry, name: str) -> bool:
    """Whether an entry belongs to a declared part: its key is the part's name, possibly followed by a number or an
    inner name."""
    return bool(entry.key) and (entry.key == name or entry.key.startswith((f"{name}:", f"{name}.", f"{name}[")))
