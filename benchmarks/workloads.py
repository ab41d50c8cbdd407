"""Which workloads there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from benchmarks.growth import w9
from benchmarks.latency import w4
from benchmarks.parked import w7
from benchmarks.places import Place
from benchmarks.raw import raw_limits
from benchmarks.recovery import w5, w6
from benchmarks.scale import Scale
from benchmarks.throughput import w1, w2, w3, w8

Run: TypeAlias = Callable[[Scale, Place], Awaitable[dict[str, float]]]


async def raw(scale: Scale, place: Place) -> dict[str, float]:
    """The limits."""
    return raw_limits(place.raw(), scale.raw_commits)


WORKLOADS: dict[str, Run] = {
    "raw": raw,
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "W7": w7,
    "W8": w8,
    "W9": w9,
}
