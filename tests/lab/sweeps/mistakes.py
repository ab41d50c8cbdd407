"""Mistakes that users make in workflows, one a workflow. Each must be found by `crash_sweep`."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import Machine, Retry, current, sleep, step, workflow
from holdfast.authoring.script.workflows import Call
from holdfast.sync import step as sync_step
from holdfast.sync import workflow as sync_workflow

MISTAKES: dict[str, Callable[[], Call[Any]]] = {}


def mistake(name: str, *args: Any) -> Callable[[Any], Any]:
    """Enters a workflow, with its arguments."""

    def enter(made: Any) -> Any:
        MISTAKES[name] = lambda: (made.call if hasattr(made, "call") else made)(*args)
        return made

    return enter


@dataclass
class Order:
    id: str
    cents: int
    lines: list[str] = field(default_factory=list[str])


# -- steps that are not safe to repeat ---------------------------------------------------------------------------------

payments: list[int] = []
balance = {"cents": 1000}
numbers = itertools.count(1)
mailbox: list[str] = []


@step
async def pure(value: str) -> str:
    return value.upper()


@step
async def number(value: int) -> float:
    return value / 10


@step
async def pay(cents: int) -> str:
    payments.append(cents)
    return "paid"


@mistake("a charge without an idempotency key", 5)
@workflow
async def charges_twice(cents: int) -> str:
    return await pay(cents)


@step
async def withdraw(cents: int) -> int:
    balance["cents"] -= cents
    return cents


@mistake("a balance that is counted down", 5)
@workflow
async def withdraws(cents: int) -> int:
    return await withdraw(cents)


@step
async def next_number() -> int:
    return next(numbers)


@mistake("a number that is new each time")
@workflow
async def numbered() -> int:
    return await next_number()


@sync_step
def mail(text: str) -> None:
    mailbox.append(text)


@mistake("mail sent from a thread", "hello")
@sync_workflow
def mails(text: str) -> str:
    mail(text)
    return text


@step
async def by_attempt(value: str) -> str:
    return f"{value} in attempt {current().attempt}"


@mistake("a result that names the attempt", "a")
@workflow
async def attempts_shown(value: str) -> str:
    return await by_attempt(value)


# -- time, chance, surroundings ----------------------------------------------------------------------------------------


@mistake("time.time() as an argument")
@workflow
async def stamped() -> str:
    return await pure(str(time.time()))


@mistake("datetime.now() in a decision")
@workflow
async def in_the_morning() -> str:
    return await pure("early" if datetime.now(UTC).year < 3000 else "late")


@mistake("a deadline by the wall clock")
@workflow
async def polls() -> str:
    until = time.monotonic() + 60
    for _ in range(3):
        if time.monotonic() > until:
            break
        await pure("poll")
        await sleep("1s")
    return "done"


@mistake("random()")
@workflow
async def drawn() -> str:
    return await pure("a" if random.random() < 0.5 else "b")


@mistake("random.choice()")
@workflow
async def chosen() -> str:
    return await pure(random.choice(["a", "b"]))


@mistake("uuid4() of the standard library")
@workflow
async def identified() -> str:
    return await pure(str(uuid.uuid4()))


@mistake("a secret token")
@workflow
async def tokens() -> str:
    return await pure(secrets.token_hex(4))


@mistake("the environment")
@workflow
async def surrounded() -> str:
    return await pure(os.environ.get("REGION", "eu"))


@mistake("a file")
@workflow
async def reads() -> str:
    with open(__file__, encoding="utf-8") as file:  # noqa: ASYNC230, PTH123 the mistake
        return await pure(file.readline())


@mistake("a path that is looked at")
@workflow
async def looks() -> str:
    return await pure(str(Path(__file__).exists()))  # noqa: ASYNC240 the mistake


@mistake("the process id")
@workflow
async def process_number() -> str:
    return await pure(str(os.getpid()))


# -- order -------------------------------------------------------------------------------------------------------------


@mistake("the order of a set", ["a", "b", "c", "d", "e", "f", "g"])
@workflow
async def unordered(names: list[str]) -> list[str]:
    return [await pure(name) for name in set(names)]


@mistake("order by address", ["a", "b", "c"])
@workflow
async def by_address(names: list[str]) -> list[str]:
    orders = [Order(name, 1) for name in names]
    return [await pure(order.id) for order in sorted(orders, key=id)]


@mistake("a dict of objects by id()", ["a", "b", "c"])
@workflow
async def by_id(names: list[str]) -> list[str]:
    orders = {id(order): order for order in [Order(name, 1) for name in names]}
    return [await pure(orders[key].id) for key in sorted(orders)]


@mistake("order by hash", ["a", "b", "c", "d"])
@workflow
async def by_hash(names: list[str]) -> list[str]:
    return [await pure(name) for name in sorted(names, key=hash)]


@mistake("floats added as they come", [1, 2, 3, 7])
@workflow
async def accumulates(values: list[int]) -> float:
    total = 0.1
    for done in asyncio.as_completed([asyncio.create_task(number(value)) for value in values]):
        total = total * 1.1 + await done
    return total


# -- memory ------------------------------------------------------------------------------------------------------------

count = 0
filled: dict[str, str] = {}


@mistake("a counter in a module")
@workflow
async def counts() -> str:
    global count  # noqa: PLW0603 the mistake
    count += 1
    return await pure(f"run {count}")


@step
async def fill(name: str) -> None:
    filled[name] = name.upper()


@mistake("a cache that a step fills and the workflow reads", "a")
@workflow
async def cached(name: str) -> str:
    await fill(name)
    await sleep("1h")
    return filled.get(name, "empty")


@functools.lru_cache
def rate() -> float:
    return time.time()


@mistake("a cached function that asks the clock")
@workflow
async def rated() -> str:
    return await pure(f"{rate()}")


def collect(name: str, seen: list[str] = []) -> list[str]:  # noqa: B006 the mistake
    seen.append(name)
    return seen


@mistake("a mutable default", "a")
@workflow
async def defaulted(name: str) -> str:
    return await pure(",".join(collect(name)))


def _with_state() -> Any:
    seen: list[str] = []

    async def body(name: str) -> str:
        seen.append(name)
        return await pure(str(len(seen)))

    return workflow(name="closure")(body)


closure = _with_state()
mistake("state in a closure", "a")(closure)


class Total:
    value = 0


total = Total()


@mistake("an attribute of a shared object")
@workflow
async def sums() -> str:
    total.value += 1
    return await pure(str(total.value))


@dataclass
class Knock:
    name: str


@dataclass
class Opened:
    number: int


door = Machine[Knock, Opened]("mistaken_door")
mistake("a list that a script of a machine keeps", Knock("a"))(door)
knocks: list[str] = []


@door.script
async def knock(s: Knock) -> Opened:
    knocks.append(await pure(s.name))
    return Opened(len(knocks))


# -- asyncio -----------------------------------------------------------------------------------------------------------


@mistake("a missing await", "a")
@workflow
async def forgets(name: str) -> str:
    pure(name)  # type: ignore[unused-coroutine]
    return "done"


@mistake("a task left behind", "a")
@workflow
async def leaves(name: str) -> str:
    asyncio.create_task(_twice(name))  # type: ignore[unused-awaitable]  # noqa: RUF006 the mistake
    await pure(name)
    return "done"


async def _twice(name: str) -> None:
    await sleep("1h")
    await pure(name * 2)


@mistake("a CancelledError that is swallowed", "a")
@workflow
async def stubborn(name: str) -> str:
    try:
        await sleep("1h")
    except asyncio.CancelledError:
        await pure("never mind")
    return await pure(name)


@mistake("a bare except around a step", "a")
@workflow
async def deaf(name: str) -> str:
    try:
        return await pure(name)
    except:  # noqa: E722 the mistake
        return "whatever"


@mistake("a thread in a workflow", "a")
@workflow
async def threads(name: str) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(name))
    thread.start()
    thread.join()
    return await pure(found[0])


# -- values ------------------------------------------------------------------------------------------------------------


@step
async def add_line(order: Order) -> None:
    order.lines.append("gift")


@mistake("an argument that a step changes", "a")
@workflow
async def fills(name: str) -> int:
    order = Order(name, 1)
    await add_line(order)
    return len(order.lines)


@step(retry=Retry.none)
async def grid() -> dict[tuple[int, int], str]:
    return {(0, 1): "a"}


@mistake("a result that does not come back")
@workflow
async def tables() -> int:
    return len(await grid())


@step(retry=Retry.none)
async def opened() -> Any:
    return threading.Lock()


@mistake("a result that cannot be stored")
@workflow
async def locks() -> str:
    return str(await opened())
