"""Flows that call each other in a circle: a run of one would never end. Found by name, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.authoring.flow.flow_definition import Definition

__all__ = ["circle"]


def circle(own: str, targets: Iterable[str], flow_of: Callable[[str], Definition | None]) -> list[str]:
    """The way around a circle that calls of `targets` in the flow `own` lead to, with it or without; empty if there
    is none. `flow_of` has the flow of a name, None if it is something else. Each flow is looked at once."""
    way = [own]
    left: list[Iterator[str]] = [iter(targets)]
    seen: set[str] = set()
    while left:
        name = next(left[-1], None)
        if name is None:
            left.pop()
            seen.add(way.pop())
        elif name not in seen:
            flow = flow_of(name)
            if flow is None:
                seen.add(name)
            elif name in way:
                return [*way[way.index(name) :], name]
            else:
                way.append(name)
                left.append(iter(flow.targets))
    return []
