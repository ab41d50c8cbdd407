"""Boxes and arrows as one SVG, at the positions from `authoring.layout`: what all pictures share."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from holdfast.authoring.layout import GAP, HEIGHT, Box, Edge, Layout

__all__ = ["Picture", "width_of"]

STYLE = (
    "text{font-family:ui-sans-serif,system-ui,'Segoe UI',sans-serif;text-anchor:middle}"
    ".name{font-size:14px;font-weight:600;fill:#1f2933}.note{font-size:11px;fill:#616e7c}"
    ".box{fill:#fff;stroke:#3e4c59;stroke-width:1.5}.router{fill:#fff8e6}.final{fill:#e3f8ec;stroke:#1f7a4d}"
    ".undo{stroke:#b44d12}.edge{fill:none;stroke:#7b8794;stroke-width:1.4}.tip{fill:#7b8794}"
)


def width_of(name: str, note: str) -> float:
    """The width of a box for its two lines."""
    return max(96.0, 9.0 * len(name) + 28, 6.4 * len(note) + 24)


@dataclass
class Picture:
    """Collects what is drawn. `style` is added to the common one."""

    layout: Layout
    style: str = ""
    parts: list[str] = field(default_factory=list[str])

    def draw_start(self, box: Box) -> None:
        """A dot above the box, and an arrow to it."""
        top = box.y - GAP * 0.55
        self.parts.append(f'<circle cx="{box.x:.1f}" cy="{top:.1f}" r="6" class="tip"/>')
        self._arrow(f"M{box.x:.1f},{top + 6:.1f} L{box.x:.1f},{box.y - 1:.1f}")

    def draw_box(self, box: Box, name: str, note: str, kinds: str = "") -> None:
        """Draws a box with a name and a note; `kinds` are its CSS classes."""
        left = box.x - box.width / 2
        shape = f'x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="9"'
        self.parts.append(f'<rect {shape} class="box {kinds}"/>')
        self.parts.append(f'<text x="{box.x:.1f}" y="{box.y + 20:.1f}" class="name">{escape(name)}</text>')
        self.parts.append(f'<text x="{box.x:.1f}" y="{box.y + 36:.1f}" class="note">{escape(note)}</text>')
        if box.loops:
            right, middle = box.x + box.width / 2, box.y + HEIGHT / 2
            bend = f"C{right + 34:.1f},{middle - 24:.1f} {right + 34:.1f},{middle + 24:.1f}"
            self._arrow(f"M{right:.1f},{middle - 9:.1f} {bend} {right + 1:.1f},{middle + 9:.1f}")

    def draw_edge(self, edge: Edge, kinds: str = "") -> None:
        """An arrow through the edge's points."""
        points = edge.points
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            if edge.is_back:
                path += f" L{x2:.1f},{y2:.1f}"
            else:
                bend = (y2 - y1) * 0.5
                path += f" C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
        self._arrow(path, kinds)

    def text(self, title: str) -> str:
        width, height = self.layout.width, self.layout.height
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img"><title>{escape(title)}</title><style>{STYLE}{self.style}</style>'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" class="tip"/></marker></defs>'
            '<rect width="100%" height="100%" fill="#fff"/>'
        )
        return head + "".join(self.parts) + "</svg>\n"

    def _arrow(self, path: str, kinds: str = "") -> None:
        classes = f"edge {kinds}" if kinds else "edge"
        self.parts.append(f'<path d="{path}" class="{classes}" marker-end="url(#tip)"/>')
