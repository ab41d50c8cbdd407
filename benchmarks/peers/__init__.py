"""The engines Holdfast is measured beside, each with its defaults and with the same workloads.

A peer is a package in here with a table `workloads.WORKLOADS`. It is imported only in the process that measures it, so
a peer that is not installed disturbs nobody, and nothing of it is ever loaded beside Holdfast.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeAlias, cast

from benchmarks.peers.grounds import Ground
from benchmarks.scale import Scale

Measure: TypeAlias = Callable[[Scale, Ground], Awaitable[dict[str, float]]]
"""Sizes, and where its databases are. Gives figures."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them. `workloads` names what it is measured on: the rest it cannot do, or not in reasonable time."""

    name: str
    title: str
    package: str
    workloads: tuple[str, ...]

    @property
    def version(self) -> str:
        """The installed one."""
        return version(self.package)

    def measures(self) -> dict[str, Measure]:
        """Its workloads. Imports the peer."""
        module = importlib.import_module(f"benchmarks.peers.with_{self.name}.workloads")
        return cast("dict[str, Measure]", module.WORKLOADS)


_DBOS = Peer("dbos", "DBOS", "dbos", ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"))
_ABSURD = Peer("absurd", "Absurd", "absurd-sdk", ("W1", "W2", "W3", "W4"))
PEERS: dict[str, tuple[Peer, ...]] = {"sqlite": (_DBOS,), "postgresql": (_DBOS, _ABSURD)}
"""By store."""
