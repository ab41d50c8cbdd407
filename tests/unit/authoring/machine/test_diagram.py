"""Pictures of machines, drawn from their definitions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

from holdfast import Again, Machine, More
from holdfast.authoring.layout import HEIGHT, Box, lay_out
from holdfast.authoring.machine.machine_diagram import box_of
from tests.unit.authoring.machine.stage import A, B, C, D, End

SVG = "{http://www.w3.org/2000/svg}"


def shop() -> Machine[A, End]:
    """A machine with a router, a loop back, a stepped state, an undo and a long edge."""
    machine = Machine[A, End]("shop <&>", version="2")

    @machine.state
    async def reserve(s: A) -> B | End:
        return B()

    @reserve.undo
    async def release(left: B | End, s: A) -> None: ...

    @machine.router
    def route(s: B) -> C | D:
        return C()

    @machine.stepped
    async def pack(s: C, cursor: int | None) -> More[int] | D:
        return D()

    @machine.poll
    async def wait(s: D) -> Again | A | End:
        return End()

    return machine


def test_mermaid_shows_states_edges_and_undos() -> None:
    """Promise: from the annotations, in the order of declaration."""
    assert shop().diagram() == (
        "stateDiagram-v2\n"
        "    A: A (undo release)\n"
        "    B: B (router)\n"
        "    C: C (stepped)\n"
        "    D: D (poll)\n"
        "    [*] --> A\n"
        "    A --> B: reserve\n"
        "    A --> End: reserve\n"
        "    B --> C: route\n"
        "    B --> D: route\n"
        "    C --> C: more\n"
        "    C --> D: pack\n"
        "    D --> D: again\n"
        "    D --> A: wait\n"
        "    D --> End: wait\n"
        "    End --> [*]\n"
    )


def test_the_svg_is_whole_and_inside_its_frame() -> None:
    """Promise: well-formed, every state and edge drawn, names escaped, nothing outside the picture."""
    root = ET.fromstring(shop().diagram("svg"))  # noqa: S314 our own text
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "machine shop <&>, version 2"
    names = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(str(name) for name in names) == ["A", "B", "C", "D", "End"]
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in root.iter(f"{SVG}rect"):
        if box.get("x"):
            x, y = float(box.get("x", 0)), float(box.get("y", 0))
            assert x >= 0
            assert x + float(box.get("width", 0)) <= width
            assert y >= 0
            assert y + HEIGHT <= height
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == 1 + 7 + 2  # the start, seven edges, two loops


def test_boxes_never_overlap() -> None:
    """Promise: whatever the machine, each state has its own place, later ones below."""
    model = shop().build()
    boxes = [box_of(node) for node in model.nodes.values()]
    edges = [(node.label, cls.__name__) for node in model.nodes.values() for cls in node.targets]
    layout = lay_out(boxes, edges, ["A"])
    for one, other in combinations(layout.boxes.values(), 2):
        beside = abs(one.x - other.x) >= (one.width + other.width) / 2
        assert beside or abs(one.y - other.y) >= HEIGHT
    assert layout.boxes["A"].y < layout.boxes["B"].y < layout.boxes["C"].y < layout.boxes["D"].y < layout.boxes["End"].y


def test_an_edge_that_leads_back_passes_behind_no_state() -> None:
    """Promise: it runs between the layers and along the side, so that nobody takes it for another state's."""
    boxes = [Box(name, 100.0) for name in ("A", "B", "C", "D", "E")]
    edges = [("A", "B"), ("B", "C"), ("B", "D"), ("C", "B"), ("C", "E"), ("D", "E"), ("E", "A"), ("D", "A")]
    layout = lay_out(boxes, edges, ["A"])
    back = [edge for edge in layout.edges if edge.is_back]
    assert len(back) == 3
    for edge in back:
        for (x1, y1), (x2, y2) in pairwise(edge.points[1:-1]):
            for box in layout.boxes.values():
                beside = max(x1, x2) < box.x - box.width / 2 or min(x1, x2) > box.x + box.width / 2
                assert beside or max(y1, y2) < box.y or min(y1, y2) > box.y + HEIGHT, (box.name, edge)
        assert all(0 < x < layout.width and 0 < y < layout.height for x, y in edge.points)
