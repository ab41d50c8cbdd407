"""A machine as a picture, drawn from its definition: Mermaid text, or SVG without anybody's help.

The SVG is laid out in layers by distance from the first state. An edge that spans several layers gets a place in each
of them, so that it passes between the boxes; one that leads back runs along the right side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from holdfast.authoring.machine.layout import GAP, HEIGHT, Box, Edge, Layout, lay_out
from holdfast.authoring.machine.model import Model, Node

STYLE = (
    "text{font-family:ui-sans-serif,system-ui,'Segoe UI',sans-serif;text-anchor:middle}"
    ".name{font-size:14px;font-weight:600;fill:#1f2933}.note{font-size:11px;fill:#616e7c}"
    ".box{fill:#fff;stroke:#3e4c59;stroke-width:1.5}.router{fill:#fff8e6}.final{fill:#e3f8ec;stroke:#1f7a4d}"
    ".undo{stroke:#b44d12}.edge{fill:none;stroke:#7b8794;stroke-width:1.4}.tip{fill:#7b8794}"
)


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
    boxes = [_box(node) for node in model.nodes.values()]
    labels = {cls: node.label for cls, node in model.nodes.items()}
    edges = [(node.label, labels[cls]) for node in model.nodes.values() for cls in node.targets]
    layout = lay_out(boxes, edges, [labels[cls] for cls in model.first])
    picture = _Picture(layout)
    for edge in layout.edges:
        picture.draw_edge(edge)
    for cls in model.first:
        picture.draw_start(layout.boxes[labels[cls]])
    for node in model.nodes.values():
        picture.draw_box(layout.boxes[node.label], node)
    return picture.text(model)


def _words(node: Node) -> str:
    """What is said of a state besides its name."""
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


def _box(node: Node) -> Box:
    width = max(96.0, 9.0 * len(node.label) + 28, 6.4 * len(_note(node)) + 24)
    loops = node.definition is not None and node.definition.kind in {"stepped", "poll", "stream"}
    return Box(node.label, width, loops=loops)


@dataclass
class _Picture:
    layout: Layout
    parts: list[str] = field(default_factory=list[str])

    def draw_start(self, box: Box) -> None:
        top = box.y - GAP * 0.55
        self.parts.append(f'<circle cx="{box.x:.1f}" cy="{top:.1f}" r="6" class="tip"/>')
        self._arrow(f"M{box.x:.1f},{top + 6:.1f} L{box.x:.1f},{box.y - 1:.1f}")

    def draw_box(self, box: Box, node: Node) -> None:
        left = box.x - box.width / 2
        kind = "final" if node.is_final else "router" if node.definition and node.definition.kind == "router" else ""
        undo = " undo" if node.undo is not None else ""
        shape = f'x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="9"'
        self.parts.append(f'<rect {shape} class="box {kind}{undo}"/>')
        self.parts.append(f'<text x="{box.x:.1f}" y="{box.y + 20:.1f}" class="name">{escape(node.label)}</text>')
        self.parts.append(f'<text x="{box.x:.1f}" y="{box.y + 36:.1f}" class="note">{escape(_note(node))}</text>')
        if box.loops:
            right, middle = box.x + box.width / 2, box.y + HEIGHT / 2
            bend = f"C{right + 34:.1f},{middle - 24:.1f} {right + 34:.1f},{middle + 24:.1f}"
            self._arrow(f"M{right:.1f},{middle - 9:.1f} {bend} {right + 1:.1f},{middle + 9:.1f}")

    def draw_edge(self, edge: Edge) -> None:
        points = edge.points
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            if edge.is_back:
                path += f" L{x2:.1f},{y2:.1f}"
            else:
                bend = (y2 - y1) * 0.5
                path += f" C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
        self._arrow(path)

    def text(self, model: Model) -> str:
        width, height = self.layout.width, self.layout.height
        title = escape(f"machine {model.name}" + (f", version {model.version}" if model.version else ""))
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img"><title>{title}</title><style>{STYLE}</style>'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" class="tip"/></marker></defs>'
            '<rect width="100%" height="100%" fill="#fff"/>'
        )
        return head + "".join(self.parts) + "</svg>\n"

    def _arrow(self, path: str) -> None:
        self.parts.append(f'<path d="{path}" class="edge" marker-end="url(#tip)"/>')
