"""From a seed to the faults of its simulation: a list, so that it can be shortened until only what matters is left.

Every call of a worker or client to the store is a boundary, counted per kind: calls that write turns, calls that do
not, calls of clients. A fault is tied to a number of that count, or to a time.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Where: TypeAlias = Literal["write", "other", "client", "time"]
Kind: TypeAlias = Literal["crash before", "crash after", "refuse", "lose answer", "stall", "block", "slow"]
Event: TypeAlias = Literal["jump", "terminate", "deploy", "lie", "collect", "outage", "reboot", "twin"]

WRITES = frozenset(
    {"commit", "create", "release", "send", "take", "put_snapshot", "compact", "publish", "append", "move_schedule"}
)
AT_CALLS: tuple[Kind, ...] = ("crash before", "crash after", "refuse", "lose answer", "stall", "block", "slow")
AT_TIMES: tuple[Event, ...] = ("jump", "terminate", "deploy", "lie", "collect", "outage", "reboot", "twin")
OF_CLIENTS: tuple[Kind, ...] = ("refuse", "lose answer", "slow")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: at the boundary of that number, or after so many virtual milliseconds.

    `amount`: seconds of a stall or jump; for `crash …`, 1 means that the worker comes back under its own id.
    """

    where: Where
    at: int
    kind: Kind | Event
    amount: float = 0.0

    def __str__(self) -> str:
        place = f"at {self.at} ms" if self.where == "time" else f"at {self.where} call {self.at}"
        return f"{self.kind} {place}" + (f" ({self.amount:g})" if self.amount else "")

    def to_json(self) -> dict[str, Any]:
        """As a kept seed has it."""
        return asdict(self)


def draw(rng: random.Random, ttl: float) -> list[Fault]:
    """Faults by chance: which kinds there are at all is drawn first."""
    kinds: list[Kind] = [kind for kind in AT_CALLS if rng.random() < 0.4]
    events: list[Event] = [event for event in AT_TIMES if rng.random() < 0.25]
    found: list[Fault] = []
    weighted = kinds + [kind for kind in kinds if kind == "stall"]
    if kinds:
        for _ in range(rng.choice((1, 2, 3, 5, 8, 12))):
            kind = rng.choice(weighted)
            where: Where = rng.choice(("write", "write", "other", "client"))
            if where == "client" and kind not in OF_CLIENTS:
                where = "write"
            found.append(Fault(where, int(rng.expovariate(1 / 25)), kind, _amount(rng, kind, ttl)))
    for event in events:
        times = [rng.randrange(100, 4000) for _ in range(rng.choice((1, 1, 2)))]
        found += [Fault("time", at, event, _amount(rng, event, ttl)) for at in times]
    unique = {(fault.where, fault.at): fault for fault in found}
    return sorted(unique.values(), key=lambda fault: (fault.where, fault.at))


def _amount(rng: random.Random, kind: str, ttl: float) -> float:
    match kind:
        case "stall":
            return rng.choice((0.3, 0.9, 1.3, 1.6, 2.5)) * ttl
        case "block":
            return rng.choice((0.5, 1.5, 3.0)) * ttl
        case "slow":
            return rng.choice((0.02, 0.3, 1.0)) * ttl
        case "jump":
            return rng.choice((-20.0, -3.0, -0.5, 0.7, 4.0, 20.0, 3600.0))
        case "outage":
            return rng.choice((0.3, 1.0, 2.0, 4.0)) * ttl
        case "crash before" | "crash after":
            return float(rng.random() < 0.5)
        case _:
            return 0.0
