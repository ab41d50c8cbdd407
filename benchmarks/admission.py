"""What a run costs in a queue with a rule, and under a limit; and how long one tenant waits behind another.

    python -m benchmarks.admission [--store sqlite] [--record]

The rules never hold a run back: what is measured is what they cost, beside the same runs without any, in turns.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.admission_section import RESULTS, rendered
from benchmarks.places import STORES as PLACES
from benchmarks.places import Place, placed
from benchmarks.section import measured_on, show_section
from holdfast import App, Limit, Queue, step, workflow

STORES = ("memory", *PLACES)
AT_ONCE = 100_000
"""Places that are never all taken."""

MAIL = "mail"

PART = 200
"""Runs that are started at once."""


class Sizes(NamedTuple):
    """How many runs, and how often. `flood` is what the large tenant has waiting, `few` what the small one has."""

    runs: int = 1_000
    rounds: int = 5
    flood: int = 10_000
    few: int = 10
    seconds: float = 0.1


@step
async def work(n: int) -> int:
    return n


@step(limits=[Limit("many", at_once=AT_ONCE)])
async def limited_work(n: int) -> int:
    return n


begun: list[tuple[str, float]] = []
"""The bodies of `hold` that began: of which tenant, and when."""


@step
async def hold(tenant: str, seconds: float) -> None:
    begun.append((tenant, time.perf_counter()))
    await asyncio.sleep(seconds)


@workflow
async def plain(n: int) -> int:
    return await work(n)


@workflow
async def limited(n: int) -> int:
    return await limited_work(n)


@workflow
async def held(tenant: str, seconds: float) -> None:
    await hold(tenant, seconds)


def app_at(url: str) -> App:
    """An app with a queue whose rule never holds anything back."""
    return App(url, workflows=[plain, limited], queues=[Queue(MAIL, at_once=AT_ONCE)], step_limit=None)


async def costs(url: str, sizes: Sizes) -> dict[str, float]:
    """Runs of one step per second, all started at once: without rules, in a queue with one, and under a limit."""
    rates: dict[str, list[float]] = {"plain": [], "queue": [], "limit": []}
    async with app_at(url) as app, app.worker(concurrency=2 * sizes.runs, queues=["default", MAIL]):
        for round_ in range(sizes.rounds + 1):
            for name, found in rates.items():
                made, queue = limited if name == "limit" else plain, MAIL if name == "queue" else "default"

                async def through(n: int, made: Any = made, queue: str = queue) -> None:
                    await (await app.start(made(n), queue=queue)).result()

                began = time.perf_counter()
                await asyncio.gather(*map(through, range(sizes.runs)))
                if round_:  # the first warms up
                    found.append(sizes.runs / (time.perf_counter() - began))
    return {name: round(median(found), 1) for name, found in rates.items()}


async def waits(url: str, flood: int, sizes: Sizes) -> dict[str, float]:
    """How long the small tenant waits from its start until a body begins, p95: in milliseconds, and in bodies that
    begin until then. Both tenants have their runs in a queue of two places; the large one has `flood` waiting."""
    begun.clear()
    app = App(url, workflows=[held], queues=[Queue(MAIL, at_once=2)], step_limit=None)
    async with app:
        for first in range(0, flood, PART):
            waiting = range(first, min(first + PART, flood))
            await asyncio.gather(*(app.start(held("large", sizes.seconds), queue=MAIL, share="large") for _ in waiting))
        async with app.worker(queues=[MAIL]):
            while flood and not begun:  # noqa: ASYNC110 bodies say what they do to a list
                await asyncio.sleep(sizes.seconds)
            before, began = len(begun), time.perf_counter()
            small = [app.start(held("small", sizes.seconds), queue=MAIL, share="small") for _ in range(sizes.few)]
            await asyncio.gather(*[(await each).result() for each in small])
    after = begun[before:]
    times = sorted((at - began) * 1e3 for tenant, at in after if tenant == "small")
    places = [place for place, (tenant, _) in enumerate(after, 1) if tenant == "small"]
    return {"ms": round(_p95(times), 1), "bodies": _p95(places)}


def _p95(values: Sequence[float]) -> float:
    return values[min(len(values) - 1, int(len(values) * 0.95))]


async def all_of(stores: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """The results of these stores: what runs cost, and how long the small tenant waits alone and behind the large."""
    found: dict[str, Any] = {}
    for name in stores:
        with tempfile.TemporaryDirectory(prefix="holdfast-admission-") as folder, ExitStack() as stack:
            place = stack.enter_context(placed(name, Path(folder))) if name in PLACES else None

            def url(which: str, place: Place | None = place) -> str:
                return "memory://" if place is None else place.url(which)

            found[name] = {
                "runs": await costs(url("costs"), sizes),
                "alone": await waits(url("alone"), 0, sizes),
                "behind": await waits(url("behind"), sizes.flood, sizes),
            }
    return found


async def measured_section(stores: Sequence[str]) -> dict[str, Any]:
    """Everything that the section tells."""
    return {**measured_on(Sizes()), "stores": await all_of(stores, Sizes())}


if __name__ == "__main__":
    show_section("admission", __doc__, STORES, measured_section, rendered, RESULTS)
