"""Workflows that replay, written the ways that look most like mistakes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

from holdfast import RunVar, Signal, each, now, rng, sleep, start, step, uuid4, workflow

approved = Signal[bool]("approved")
progress = RunVar[int]("progress")
KINDS = {"book": 1, "pen": 2}
ALLOWED = frozenset({"book", "pen"})


@step
async def charge(cents: int) -> str:
    return f"paid {cents} at {time.time()}"


@step
def label(order: str) -> str:
    return Path("labels").joinpath(order).name + str(datetime.now(UTC))


@workflow
async def child(order: str) -> str:
    return order


@workflow
async def clocks(order: str) -> str:
    until = now() + timedelta(hours=1)
    await asyncio.sleep(3)
    epoch = datetime.fromtimestamp(0, UTC)
    return f"{order} {until} {epoch} {time.strftime('%Y', until.timetuple())}"


@workflow
async def chances(order: str) -> str:
    seeded = random.Random(7)
    return f"{order} {rng().random()} {uuid4()} {seeded.random()}"


@workflow
async def sets(orders: list[str]) -> list[str]:
    unique = set(orders)
    total = sum(len(order) for order in unique)
    has = any(order in ALLOWED for order in unique)
    chosen = [await child(order) for order in sorted(unique | ALLOWED)]
    return [*chosen, str(total), str(has), str(len(unique)), max(unique)]


@workflow
async def dictionaries(orders: list[str]) -> list[str]:
    counted = Counter(orders)
    counted["more"] += 1
    found: list[str] = []
    for order, number in counted.items():
        found.append(f"{order} {number} {KINDS.get(order, 0)}")
    return found


@workflow
async def tasks(cents: list[int]) -> list[str]:
    async with asyncio.TaskGroup() as group:
        made = [group.create_task(charge(one)) for one in cents]
        group.create_task(asyncio.to_thread(label, "tag"))
    first = asyncio.create_task(charge(1))
    both = await asyncio.gather(charge(2), asyncio.to_thread(label, "other"))
    return [*(one.result() for one in made), await first, *both]


@workflow
async def waits(order: str) -> str:
    try:
        async with asyncio.timeout(60):
            await approved.wait()
    except TimeoutError:
        return "too late"
    except asyncio.CancelledError:
        progress.set(0)
        raise
    await sleep("1h")
    return order


@workflow
async def cleans_up(order: str) -> str:
    try:
        await charge(1)
    except Exception as error:  # noqa: BLE001
        return str(error)
    finally:
        progress.set(1)
    return order


def pure(order: str) -> str:
    return str(PurePath("a") / order).upper()


@workflow
async def helped(order: str) -> str:
    def inner(text: str) -> str:
        return pure(text)

    @step
    async def here(text: str) -> float:
        return time.time() + len(text)

    run = start(child(order), id=f"{order}-child")
    progress.set(2)
    return f"{inner(order)} {await here(order)} {run.id} {await charge.options(key='tip')(3)}"


@workflow
async def shadows(time: list[float], random: dict[str, int]) -> float:
    time.append(1.0)
    random["a"] = 2
    return sum(time) + random.get("a", 0)


@workflow
async def mapped(orders: list[str]) -> list[str]:
    return await each(child, orders, limit=3)


@workflow
async def allowed(order: str) -> str:
    started = time.perf_counter()  # holdfast: allow clock
    return f"{order} {bool(started)}"


@workflow
def plain(order: str) -> str:
    return label(order)


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "spec") and hasattr(value, "version")]
