"""A machine as a picture, drawn from its definition: Mermaid text, or SVG without another program.

The SVG is laid out in layers by distance from the first state. An edge that spans several layers gets a point in each
of them, so that it passes between the boxes; an edge that leads back runs along the right side.
"""

from __future__ import annotations

from holdfast.authoring.layout import Box, lay_out
from holdfast.authoring.machine.model import Model, Node
from holdfast.authoring.picture import Picture, width_of


def mermaid(model: Model) -> str:
    """The machine as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {node.label}: {node.label}{_words(node)}" for node in model.nodes.values() if _words(node)]
    lines += [f"    [*] --> {model.nodes[cls].label}" for cls in model.first]
    for node in model.nodes.values():
        if node.definition is not None:
            if node.definition.kind in {"stepped", "poll", "stream"}:
                lines.append(f"    {node.label} --> {node.label}: {_again(node)}")
            lines += [f"    {node.label} --> {model.nodes[cls].label}: {node.definition.name}" for cls in node.targets]
        else:
            lines.append(f"    {node.label} --> [*]")
    return "\n".join(lines) + "\n"


def svg(model: Model) -> str:
    """The machine as one SVG picture."""
    boxes = [box_of(node) for node in model.nodes.values()]
    labels = {cls: node.label for cls, node in model.nodes.items()}
    edges = [(node.label, labels[cls]) for node in model.nodes.values() for cls in node.targets]
    layout = lay_out(boxes, edges, [labels[cls] for cls in model.first])
    picture = Picture(layout)
    for edge in layout.edges:
        picture.draw_edge(edge)
    for cls in model.first:
        picture.draw_start(layout.boxes[labels[cls]])
    for node in model.nodes.values():
        picture.draw_box(layout.boxes[node.label], node.label, _note(node), _kinds(node))
    return picture.text(f"machine {model.name}" + (f", version {model.version}" if model.version else ""))


def _kinds(node: Node) -> str:
    is_router = node.definition is not None and node.definition.kind == "router"
    kind = "final" if node.is_final else "router" if is_router else ""
    return f"{kind} undo" if node.undo is not None else kind


def _words(node: Node) -> str:
    """What the picture says of a state besides its name."""
    parts: list[str] = []
    if node.definition is not None and node.definition.kind != "state":
        parts.append(node.definition.kind)
    if node.undo is not None:
        parts.append(f"undo {node.undo.function.__name__}")
    return f" ({', '.join(parts)})" if parts else ""


def _again(node: Node) -> str:
    kinds = {"stepped": "more", "poll": "again", "stream": "next window"}
    return kinds[node.definition.kind] if node.definition is not None else ""


def _note(node: Node) -> str:
    if node.definition is None:
        return "final"
    kind = node.definition.kind
    text = node.definition.name if kind == "state" else f"{kind} · {node.definition.name}"
    return f"{text} · undo {node.undo.function.__name__}" if node.undo is not None else text


def box_of(node: Node) -> Box:
    """A state's box, wide enough for its text."""
    loops = node.definition is not None and node.definition.kind in {"stepped", "poll", "stream"}
    return Box(node.label, width_of(node.label, _note(node)), loops=loops)
