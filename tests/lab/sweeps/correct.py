"""Workflows that are right, each in its own way. None may raise an alarm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from holdfast import (
    Again,
    Machine,
    More,
    OutcomeUnknown,
    Permanent,
    Retry,
    RunVar,
    Signal,
    StepFailed,
    Topic,
    continue_as,
    current,
    each,
    get_blob,
    heartbeat,
    log,
    now,
    patched,
    put_blob,
    resource,
    rng,
    saga,
    sleep,
    start,
    step,
    uuid4,
    workflow,
)
from holdfast.authoring.script.workflows import Call
from holdfast.sync import saga as sync_saga
from holdfast.sync import sleep as sync_sleep
from holdfast.sync import step as sync_step
from holdfast.sync import workflow as sync_workflow

Sent = Sequence[Any]
CORRECT: dict[str, tuple[Callable[[], Call[Any]], Sent]] = {}


def correct(name: str, *args: Any, signals: Sent = ()) -> Callable[[Any], Any]:
    """Enters a workflow, with its arguments and what is sent to it."""

    def enter(made: Any) -> Any:
        CORRECT[name] = (lambda: (made.call if hasattr(made, "call") else made)(*args), signals)
        return made

    return enter


@dataclass
class Order:
    id: str
    cents: int
    lines: list[str] = field(default_factory=list[str])


class Bank:
    """Knows each payment by its key."""

    def __init__(self) -> None:
        self.payments: dict[str, int] = {}


class Declined(Exception): ...


approved = Signal[bool]("approved")
prices = Topic[int]("prices")
progress = RunVar[str]("progress")
RATES = {"eu": 19, "us": 7}


@resource
async def bank() -> AsyncIterator[Bank]:
    yield Bank()


@step
async def pure(value: str) -> str:
    return value.upper()


@step
async def charge(order: Order) -> str:
    bank().payments[current().idempotency_key] = order.cents
    return f"paid {order.cents}"


@charge.undo
async def refund(payment: str, order: Order) -> None:
    bank().payments[current().idempotency_key] = -order.cents


@step(retry=Retry(3, first="1s"))
async def flaky(value: int) -> int:
    if current().attempt == 1:
        raise ConnectionError("once")
    return value


@step(raises=Declined, retry=Retry.none)
async def declined(order: Order) -> str:
    raise Declined(order.id)


@step(once=True)
async def only_once(value: str) -> str:
    return value


@step
async def slow(value: int) -> int:
    await asyncio.sleep(value)
    return value


@correct("steps in a row", 3)
@workflow
async def row(count: int) -> list[str]:
    return [await pure(str(number)) for number in range(count)]


@correct("a charge with an idempotency key", "a")
@workflow
async def pays(name: str) -> str:
    return await charge(Order(name, 5))


@correct("gather", 4)
@workflow
async def gathers(count: int) -> list[str]:
    return list(await asyncio.gather(*(pure(str(number)) for number in range(count))))


@correct("a task group")
@workflow
async def groups() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pure(name)) for name in "abc"]
    return [task.result() for task in tasks]


@correct("each, two at a time", ["a", "b", "c"])
@workflow
async def fans_out(names: list[str]) -> list[str]:
    return await each(pure, names, limit=2)


@correct("a queue with two that take from it")
@workflow
async def queued() -> list[str]:
    queue: asyncio.Queue[str] = asyncio.Queue()
    for name in "abcd":
        queue.put_nowait(name)
    found: list[str] = []

    async def take() -> None:
        while not queue.empty():
            found.append(await pure(queue.get_nowait()))

    await asyncio.gather(take(), take())
    return sorted(found)


@correct("the order of a set, sorted", ["b", "a", "c"])
@workflow
async def ordered(names: list[str]) -> list[str]:
    return [await pure(name) for name in sorted(set(names))]


@correct("a signal", signals=[(approved, True)])
@workflow
async def signalled() -> str:
    return await pure(str(await approved.wait()))


@correct("a signal that does not come")
@workflow
async def unsignalled() -> bool:
    return await approved.wait(timeout="3d", default=False)


@correct("a topic", signals=["1h", (prices, 5)])
@workflow
async def priced() -> int:
    return await prices.wait()


@correct("days of sleep")
@workflow
async def sleeps() -> str:
    await sleep("2d")
    await asyncio.sleep(3600)
    return await pure("awake")


@correct("a timeout around a slow step")
@workflow
async def hurries() -> int:
    try:
        async with asyncio.timeout(2):
            return await slow(5)
    except TimeoutError:
        return -1


@correct("a race by time, the loser cancelled")
@workflow
async def races() -> int:
    tasks = [asyncio.create_task(slow(value)) for value in (1, 9)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return max(task.result() for task in done)


@correct("retries", 7)
@workflow
async def retries(value: int) -> int:
    return await flaky(value)


@correct("a declared error", "a")
@workflow
async def declines(name: str) -> str:
    try:
        return await declined(Order(name, 1))
    except Declined as error:
        return f"declined: {error}"


@step
async def broken() -> str:
    raise Permanent("no")


@correct("an error that is caught")
@workflow
async def catches() -> str:
    try:
        return await broken()
    except StepFailed as error:
        return f"failed: {error.type}"


@correct("an error that fails the run")
@workflow
async def fails() -> str:
    return await broken()


@correct("a saga", "a")
@workflow
async def undoes(name: str) -> str:
    try:
        async with saga():
            await charge(Order(name, 5))
            await broken()
    except StepFailed:
        return "undone"
    return "done"


@correct("a step that runs once", "a")
@workflow
async def once(name: str) -> str:
    try:
        return await only_once(name)
    except OutcomeUnknown:
        return "in doubt"


@correct("time, chance and ids from Holdfast")
@workflow
async def provided() -> str:
    return await pure(f"{now().isoformat()} {rng().random()} {uuid4()}")


@correct("a deadline by now()")
@workflow
async def waits() -> int:
    until, polls = now() + timedelta(minutes=3), 0
    while now() < until:
        polls += 1
        await sleep("1m")
    return polls


@correct("a constant of the module", "eu")
@workflow
async def taxed(region: str) -> Decimal:
    return Decimal(RATES[region]) + len(await pure(region))


@workflow
async def child(name: str) -> str:
    await sleep("1h")
    return await pure(name)


@correct("a child", "a")
@workflow
async def parent(name: str) -> str:
    return f"child {await child(name)}"


@correct("children together, one of them not awaited")
@workflow
async def parents() -> list[str]:
    start(child("sample"), id="sample")
    return list(await asyncio.gather(child("a"), child("b")))


@correct("a value shown, and logs")
@workflow
async def shows() -> str:
    progress.set("begun")
    log.info("begun")
    progress.set(await pure("half"))
    return "done"


@correct("a change that is gated")
@workflow
async def changed() -> str:
    return await pure("new" if patched("better") else "old")


@correct("a run that begins anew", 0)
@workflow
async def rounds(number: int) -> int:
    await pure(str(number))
    if number < 2:
        continue_as(rounds(number + 1))
    return number


@correct("clean-up in finally", "a")
@workflow
async def cleans(name: str) -> str:
    try:
        return await charge(Order(name, 1))
    finally:
        await pure("cleaned")


@step
async def keeps(text: str) -> str:
    heartbeat(1)
    found: str = await get_blob(await put_blob(text))
    return found.lower()


@correct("blobs and progress", "A" * 10)
@workflow
async def stores(text: str) -> str:
    return await keeps(text)


@step
async def sorts(lines: list[str]) -> list[str]:
    lines.sort()
    return lines


@correct("a step that works on its copy", ["b", "a"])
@workflow
async def copies(lines: list[str]) -> list[str]:
    return await sorts(lines)


@sync_step
def double(value: int) -> int:
    return value * 2


@correct("a sync workflow", 3)
@sync_workflow
def report(pages: int) -> int:
    with sync_saga():
        found = sum(double(page) for page in range(pages))
        sync_sleep("1h")
    return found


@dataclass
class Begin:
    name: str


@dataclass
class Packing:
    name: str


@dataclass
class Asking:
    boxes: int


@dataclass
class Delivered:
    boxes: int


parcel = Machine[Begin, Delivered]("correct_parcel")
correct("a machine", Begin("a"))(parcel)


@parcel.state
async def reserve(s: Begin) -> Packing:
    bank().payments[current().idempotency_key] = 1
    return Packing(s.name)


@parcel.stepped
async def pack(s: Packing, cursor: int | None) -> More[int] | Asking:
    return More((cursor or 0) + 1) if (cursor or 0) < 2 else Asking(2)


@parcel.poll
async def ask(s: Asking) -> Again | Delivered:
    return Delivered(s.boxes) if current().attempt >= 1 else Again("1m")
