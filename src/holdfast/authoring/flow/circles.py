"""Finds flows that call each other in a circle, by name and before anything runs: such a run would never end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.authoring.flow.flow_definition import Definition

__all__ = ["circle"]


def circle(own: str, targets: Iterable[str], flow_of: Callable[[str], Definition | None]) -> list[str]:
    """A circle that the calls of `targets` in the flow `own` lead to, through `own` or not; empty if there is none.
    `flow_of` returns the flow of a name, None for other components. Each flow is visited once."""
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
