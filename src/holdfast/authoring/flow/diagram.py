"""A flow as a picture, drawn from its definition: Mermaid text, or SVG without another program.

Arrows lead from a step to those that come after it; a dotted one ends at a step that can continue with something else
(``??``). Secrets never show: a definition has the names of variables, not their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from holdfast.authoring.flow.expressions import Value, references
from holdfast.authoring.flow.flow_definition import Approve, Definition, FlowStep, Invoke, Sleep, Wait
from holdfast.authoring.flow.written import plain
from holdfast.authoring.layout import Box, lay_out
from holdfast.authoring.picture import Picture, width_of

__all__ = ["mermaid", "svg"]

STYLE = (
    ".wait{fill:#eaf2ff;stroke:#2b5c9e}.approve{fill:#fff8e6;stroke:#a9761b}.each{stroke-width:3}"
    ".unused{stroke-dasharray:5 4;opacity:.55}.optional{stroke-dasharray:4 4}"
)
OUTPUT = "output"
LONGEST = 60

_SHAPES = {"call": ('["', '"]'), "each": ('[["', '"]]'), "wait": ('(["', '"])'), "approve": ('{{"', '"}}')}


def mermaid(definition: Definition) -> str:
    """The flow as a Mermaid flowchart."""
    numbers = {step.name: f"s{number}" for number, step in enumerate(definition.steps)}
    lines = ["flowchart TD"]
    for step in definition.steps:
        opening, closing = _SHAPES[_kind(step)]
        note = _note(step)
        lines.append(f"    {numbers[step.name]}{opening}{_safe(step.name)}<br/>{_safe(note)}{closing}")
    lines.append(f'    {OUTPUT}(("{OUTPUT}"))')
    for source, target, is_firm in _edges(definition):
        arrow = "-->" if is_firm else "-.->"
        lines.append(f"    {numbers[source]} {arrow} {numbers.get(target, OUTPUT)}")
    return "\n".join(lines) + "\n"


def svg(definition: Definition) -> str:
    """The flow as one SVG picture."""
    edges = list(_edges(definition))
    steps = {step.name: step for step in definition.steps}
    boxes = [Box(name, width_of(name, _note(step))) for name, step in steps.items()]
    boxes.append(Box("", width_of(OUTPUT, "result")))  # no step is called that
    layout = lay_out(boxes, [(a, b) for a, b, _ in edges], [name for name, step in steps.items() if not step.after])
    picture = Picture(layout, STYLE)
    firm = {(a, b): is_firm for a, b, is_firm in edges}
    for edge in layout.edges:
        picture.draw_edge(edge, "" if firm.get(edge.ends, True) else "optional")
    needed = definition.needed
    for name, step in steps.items():
        kinds = f"{_kind(step)}{'' if name in needed else ' unused'}"
        picture.draw_box(layout.boxes[name], name, _note(step), kinds)
    picture.draw_box(layout.boxes[""], OUTPUT, "result", "final")
    return picture.text(f"flow {definition.name}" + (f", version {definition.version}" if definition.version else ""))


def _edges(definition: Definition) -> Iterator[tuple[str, str, bool]]:
    """Edges: from, to (an empty name is the output), and whether the target needs the source."""
    for step in definition.steps:
        for name in step.after:
            yield name, step.name, name in step.firmly_after
    output = references(definition.output)
    for name in output.steps():
        yield name, "", name in output.firm_steps()


def _kind(step: FlowStep) -> str:
    match step.does:
        case Invoke():
            return "call" if step.each is None else "each"
        case Wait() | Sleep():
            return "wait"
        case Approve():
            return "approve"
        case _:
            assert_never(step.does)


def _note(step: FlowStep) -> str:
    """What a step does, in a few words."""
    match step.does:
        case Invoke(target):
            text = target if step.each is None else f"each · {target}"
        case Wait(signal, _, _):
            text = f"wait for {signal}"
        case Sleep(duration):
            text = f"sleep {plain(duration)}"
        case Approve(by):
            text = f"approval by {by.value if isinstance(by, Value) else plain(by)}"
        case _:
            assert_never(step.does)
    text = f"{text} · if {str(plain(step.when))[2:-1]}" if step.when is not None else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _safe(text: str) -> str:
    """Text escaped for Mermaid."""
    special = {'"': "#quot;", "#": "#35;", "<": "#lt;", ">": "#gt;", "`": "#96;"}
    return "".join(special.get(character, character) for character in text)
