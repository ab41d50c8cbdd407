"""Lays out small graphs as boxes and edges in layers. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

HEIGHT = 46
GAP = 54.0
SIDE = 34.0
MARGIN = 24.0
LANE = 16.0
BEND = 18.0


@dataclass
class Box:
    """A state or step, or the point where a long edge passes a layer. `x` is its middle, `y` its top."""

    name: str
    width: float
    loops: bool = False
    x: float = 0.0
    y: float = 0.0


@dataclass
class Edge:
    """A path between two boxes through these points."""

    points: list[tuple[float, float]]
    is_back: bool = False
    ends: tuple[str, str] = ("", "")


@dataclass
class Layout:
    """The positions of all boxes and edges."""

    boxes: dict[str, Box]
    edges: list[Edge] = field(default_factory=list[Edge])
    width: float = 0.0
    height: float = 0.0


def lay_out(boxes: Sequence[Box], edges: Sequence[tuple[str, str]], first: Sequence[str]) -> Layout:
    """Places the boxes in layers from `first` down."""
    by_name = {box.name: box for box in boxes}
    forward = _acyclic(edges, first)
    depth = _depths(list(by_name), forward)
    layers: list[list[Box]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for box in boxes:
        layers[depth[box.name]].append(box)
    chains = {(a, b): _chain(a, b, by_name, depth, layers) for a, b in forward}
    _order(layers, chains)
    loops = any(box.loops for box in boxes)
    width = _place(layers) + 2 * MARGIN + (SIDE if loops else 0)
    layout = Layout(by_name, width=width, height=MARGIN + GAP * 0.7 + len(layers) * (HEIGHT + GAP) - GAP + MARGIN)
    for ends, chain in chains.items():
        middle = [point for box in chain[1:-1] for point in ((box.x, box.y), (box.x, box.y + HEIGHT))]
        points = [(chain[0].x, chain[0].y + HEIGHT), *middle, (chain[-1].x, chain[-1].y - 1)]
        layout.edges.append(Edge(points, ends=ends))
    _add_back_edges(layout, [x for x in edges if x not in chains and x[0] != x[1]])
    return layout


def _acyclic(edges: Sequence[tuple[str, str]], first: Sequence[str]) -> list[tuple[str, str]]:
    """The edges without those that lead back."""
    targets: dict[str, list[str]] = {}
    for a, b in edges:
        targets.setdefault(a, []).append(b)
    kept: list[tuple[str, str]] = []
    state: dict[str, int] = {}
    stack = [(name, iter(targets.get(name, ()))) for name in reversed(first)]
    while stack:
        name, left = stack[-1]
        state[name] = 1
        for target in left:
            if state.get(target) == 1:
                continue
            kept.append((name, target))
            if target not in state:
                stack.append((target, iter(targets.get(target, ()))))
                break
        else:
            state[name] = 2
            stack.pop()
    return list(dict.fromkeys(kept))


def _depths(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest path to each box. The edges have no cycle."""
    depth = dict.fromkeys(names, 0)
    waits = dict.fromkeys(names, 0)
    targets: dict[str, list[str]] = {}
    for a, b in edges:
        targets.setdefault(a, []).append(b)
        waits[b] += 1
    ready = [name for name, count in waits.items() if not count]
    while ready:
        name = ready.pop()
        for target in targets.get(name, ()):
            depth[target] = max(depth[target], depth[name] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return depth


def _chain(a: str, b: str, boxes: dict[str, Box], depth: dict[str, int], layers: list[list[Box]]) -> list[Box]:
    """The boxes that an edge passes, with a narrow box in each layer between its ends."""
    chain = [boxes[a]]
    for layer in range(depth[a] + 1, depth[b]):
        passing = Box(f"{a}-{b}", 14.0)
        layers[layer].append(passing)
        chain.append(passing)
    return [*chain, boxes[b]]


def _order(layers: list[list[Box]], chains: dict[tuple[str, str], list[Box]]) -> None:
    """Sorts each layer by the positions of its neighbours, down and up, so that few edges cross."""
    above: dict[int, list[Box]] = {}
    below: dict[int, list[Box]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(id(lower), []).append(upper)
            below.setdefault(id(upper), []).append(lower)
    widest = _place(layers)
    for turn in range(6):
        near = above if turn % 2 == 0 else below
        for layer in layers if turn % 2 == 0 else reversed(layers):
            layer.sort(key=lambda box: _mean([x.x for x in near.get(id(box), [])], box.x))
            _place_row(layer, widest)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layers: list[list[Box]]) -> float:
    """Positions every box, with each layer centred. Returns the greatest width."""
    widest = max((_width(layer) for layer in layers), default=0.0)
    for depth, layer in enumerate(layers):
        _place_row(layer, widest)
        for box in layer:
            box.y = MARGIN + GAP * 0.7 + depth * (HEIGHT + GAP)
    return widest


def _place_row(layer: list[Box], widest: float) -> None:
    x = MARGIN + (widest - _width(layer)) / 2
    for box in layer:
        box.x = x + box.width / 2
        x += box.width + SIDE


def _width(layer: list[Box]) -> float:
    return sum(box.width for box in layer) + SIDE * max(0, len(layer) - 1)


def _add_back_edges(layout: Layout, edges: list[tuple[str, str]]) -> None:
    """Adds edges that lead back. Each has a lane on the right side, reached through the gaps between layers, so none
    passes behind a box."""
    right = layout.width - MARGIN
    for lane, (a, b) in enumerate(dict.fromkeys(edges)):
        source, target = layout.boxes[a], layout.boxes[b]
        x = right + LANE * (lane + 1)
        start = (source.x + source.width * 0.36, source.y + HEIGHT)
        end = (target.x + target.width * 0.36, target.y - 1)
        below, above = start[1] + BEND, end[1] - BEND
        way = [start, (start[0], below), (x, below), (x, above), (end[0], above), end]
        layout.edges.append(Edge(way, is_back=True, ends=(a, b)))
        layout.width = max(layout.width, x + MARGIN)
        layout.height = max(layout.height, below + MARGIN)
