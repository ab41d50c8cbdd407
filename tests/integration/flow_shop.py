"""The components and the flow that the tests of flows run, and the ledger of what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast import App, Permanent, step, workflow


@dataclass
class Price:
    cents: int
    region: str


done: list[str] = []


@step
async def price(id: int, region: str = "eu") -> Price:
    done.append("price")
    return Price(id * 1000, region)


@step
def tax(amount: int) -> int:
    done.append("tax")
    return amount // 10


@step
async def pack(sku: str, note: str = "") -> str:
    done.append(f"pack {sku}")
    if sku == "broken":
        raise Permanent("it is broken")
    return f"{sku}/{note}"


@step(retry=1)
async def refuse(why: str) -> None:
    done.append("refuse")
    raise Permanent(why)


@pack.undo
async def unpack(packed: str, sku: str, note: str = "") -> None:
    done.append(f"undo {packed}")


@price.undo
async def unprice(was: Price, id: int, region: str = "eu") -> None:
    done.append(f"undo {was.cents}")


@workflow
async def ship(parcels: list[str]) -> str:
    done.append("ship")
    return f"{len(parcels)} shipped"


COMPONENTS: list[Any] = [price, tax, pack, refuse, ship]


def served(*flows: Any, **options: Any) -> App:
    return App("memory://", workflows=[*flows, *COMPONENTS], **options)
