"""Right uses: both checkers accept every line in strict mode, and infer what the author means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_type

import apsw

from holdfast import (
    App,
    Ask,
    BlobRef,
    Call,
    Current,
    Fact,
    Flow,
    FlowBuilder,
    Hook,
    Limit,
    Part,
    Permanent,
    Queue,
    QueueView,
    Receipt,
    Retry,
    RetryAfter,
    Run,
    RunVar,
    Schedule,
    ScheduleHandle,
    ScheduleView,
    Signal,
    Status,
    Stream,
    Topic,
    Update,
    batch,
    continue_as,
    current,
    each,
    facts,
    get_blob,
    heartbeat,
    load_flow,
    log,
    now,
    patched,
    put_blob,
    remote,
    resource,
    rng,
    saga,
    set_attributes,
    sleep,
    start,
    step,
    sync,
    transaction,
    uuid4,
    workflow,
)
from holdfast.testing import Fake, Sim, SimRun


@dataclass
class Order:
    id: str
    cents: int


class CardDeclined(Exception): ...


class NotApproved(Exception): ...


class Client:
    async def post(self, cents: int, key: str) -> str:
        return f"{cents} {key}"


approved = Signal[bool]("approved")
either = Signal[int | None]("either")
choice = Signal[Literal["yes", "no"]]("choice")
paid = Topic[Order]("orders.paid")
progress = RunVar[str]("progress")
tokens = Stream[str]("tokens")


@resource
async def http() -> AsyncIterator[Client]:
    yield Client()


@resource
def pool() -> Iterator[Client]:
    yield Client()


@step(retry=Retry(5, first="1s", factor=2, ceiling="100s"), timeout="30s", raises=CardDeclined)
async def charge(order: Order) -> str:
    client = assert_type(http(), Client)
    answer = await client.post(order.cents, current().idempotency_key)
    if answer == "declined":
        raise CardDeclined(order.id)
    if answer == "bad":
        raise Permanent(answer)
    if answer == "busy":
        raise RetryAfter("1m")
    heartbeat({"done": 1})
    ref = assert_type(await put_blob(b"large"), BlobRef)
    await get_blob(ref)
    return answer


@charge.undo
async def refund(payment: str, order: Order) -> None: ...


@step
def label(order: Order, width: int = 3) -> str:
    return f"#{order.id:>{width}}"


@label.undo
def unlabel(text: str, order: Order, width: int = 3) -> None: ...


@step(tx=True, retry=3)
async def book(order: Order) -> int:
    lite = assert_type(transaction(apsw.Connection), apsw.Connection)
    run = assert_type(await app.start(ship(order), connection=lite), Run[str])
    async with app.connection() as connection:
        await app.start(ship(order), connection=connection)
    return len(run.id)


@step(executor="process", once=True)
def crunch(numbers: list[int]) -> int:
    return sum(numbers)


@step
async def notify(kind: str, order: Order) -> None: ...


@workflow
async def ship(order: Order, express: bool = False) -> str:
    return "shipped"


@workflow(version="2", deadline="30d", raises=(CardDeclined, NotApproved), retry=Retry(3))
async def fulfil(order: Order) -> str:
    async with saga():
        payment = assert_type(await charge(order), str)
        progress.set(f"charged {payment}")
        assert_type(tokens.send(payment), None)
        if not assert_type(await approved.wait(timeout="3d", default=False), bool):
            raise NotApproved(order.id)
        assert_type(await approved.wait(), bool)
        receipt = assert_type(approved.send("run", True), Receipt)
        await receipt
        assert_type(await approved.wait(timeout=60, default=None), bool | None)
        assert_type(await either.wait(), int | None)
        assert_type(await choice.wait(), Literal["yes", "no"])
        assert_type(await paid.wait(timeout=timedelta(hours=1)), Order)
        await sleep("1h")
        await sleep(until=datetime(2030, 1, 1, tzinfo=UTC), name="long")
        text = await asyncio.to_thread(label, order, width=5)
        log.info(assert_type(text, str))
        await asyncio.gather(notify("email", order), notify("sms", order))
        first, second = await asyncio.gather(charge(order), ship(order))
        assert_type((first, second), tuple[str, str])
        async with asyncio.TaskGroup() as group:
            task = group.create_task(charge(order))
        assert_type(task.result(), str)
        async with asyncio.timeout(5):
            assert_type(await charge.options(key=f"tip-{order.id}", retry=3, timeout="5s")(order), str)
        child = assert_type(start(ship(order), id=f"sample-{order.id}", on_cancel="cancel"), Run[str])
        assert_type(await child.result(), str)
        await child.signal(approved, True)
        assert_type(progress.get(), str | None)
        assert_type(progress.get("none"), str)
        if patched("new") and rng().random() < 0.5 and now() > current().created_at:
            log.info(str(uuid4()))
        return await ship(order, express=True)


@workflow
async def reprice(orders: list[Order]) -> list[str]:
    assert_type(await each(ship, orders), list[str])
    assert_type(await batch(ship, orders), list[str])
    assert_type(await batch(ship, [ship(order, express=True) for order in orders], concurrency=5), list[str])
    assert_type(await batch(charge, orders, order="breadth", queue="slow", name="charges"), list[str])
    return assert_type(await each(charge, orders, limit=50), list[str])


@workflow
async def forever(count: int) -> int:
    await sleep(1)
    continue_as(forever(count + 1))


@remote
async def elsewhere(order: Order) -> int:
    raise NotImplementedError


made = step(charge.function, name="mail", compare=False, input="hash")
call: Call[str] = fulfil(Order("1", 2))
app = App("memory://", workflows=[fulfil, ship, reprice, forever])


async def main(order: Order) -> None:
    run = assert_type(await app.start(fulfil(order), id="order-42"), Run[str])
    assert_type(await app.start(fulfil(order), unique="42", if_exists="replace"), Run[str])
    assert_type(await app.start(fulfil(order), unique="42", debounce="30s", max_wait=300), Run[str])
    assert_type(await app.collect(fulfil, order, into="orders", within="1s", most=10), Run[str])
    assert_type(await app.start(elsewhere(order)), Run[int])
    await run.signal(approved, True, connection=object())
    assert_type(await app.start(fulfil(order), signal=(approved, True)), Run[str])
    assert_type(await app.start(fulfil(order), signal=(approved, True, "msg-1")), Run[str])
    app.wake()
    await run.signal(approved, True)
    assert_type(await run.status(), Status)
    assert_type(await run.get(progress), str | None)
    async for part in run.read(tokens, after=3, only="completed"):
        assert_type(part, Part[str])
        assert_type(part.value, str)
        assert_type((part.step, part.attempt, part.offset), tuple[str, int, int])
    async for part in run.read(tokens, after=Part("x", "", 1, 0)):
        assert_type(part.state, Literal["open", "completed", "superseded"])
    assert_type(await run.result(timeout="1m"), str)
    await run.cancel(reason="customer left")
    same = assert_type(await app.get("order-42", fulfil), Run[str])
    assert_type(await app.get("order-42"), Run[Any])
    assert_type(await same.result(), str)


go = sync.Signal[bool]("go")


@sync.workflow
def nightly(pages: int = 3) -> int:
    with sync.saga():
        first, second = sync.gather(load.call(1), load.call(2))
        assert_type((first, second), tuple[list[str], list[str]])
        assert_type(sync.batch(load, range(pages), concurrency=2), list[list[str]])
        rest = assert_type(sync.each(load, range(3, pages), limit=8), list[list[str]])
        assert_type(load(3), list[str])
        assert_type(load.options(key="x")(3), list[str])
        sync.sleep("5s")
        assert_type(go.send("run", True), sync.Receipt).wait()
        return len(rest) if assert_type(go.wait(timeout="1d", default=True), bool) else 0


@sync.step
def load(page: int) -> list[str]:
    return [str(page)]


nightly_call: Call[int] = nightly.call(pages=9)
load_call: Call[list[str]] = load.call(1)
charge_call: Call[str] = charge.call(Order("o", 5))


class FreeClient(Client): ...


async def pays_later(order: Order) -> str:
    return order.id


def labels(order: Order, width: int = 3) -> str:
    return order.id


pay = Fake(charge, lambda order: f"paid {order.cents}")
fakes = [
    pay,
    Fake(charge, pays_later),
    Fake(label, labels),
    Fake(load, lambda page: [str(page)]),
    Fake(http, FreeClient()),
    Fake(pool, Client()),
    Fake(elsewhere, lambda order: order.cents),
    Fake(ship, lambda order, express=False: "shipped"),
]


def test_order(sim: Sim) -> None:
    sim.use(*fakes)
    run = assert_type(sim.start(fulfil(Order("42", 999)), id="order-42"), SimRun[str])
    run.signal(approved, True)
    sim.advance("1h")
    sim.advance(timedelta(days=1))
    assert assert_type(run.result(), str) == "shipped"
    assert assert_type(run.status(), Status) is Status.COMPLETED
    assert_type(run.get(progress), str | None)
    for part in run.read(tokens):
        assert_type(part, Part[str])
    assert_type(sim.now, datetime)
    assert_type(sim.publish(paid, Order("1", 2)), list[str])
    assert_type(sim.start(nightly.call(pages=3)), SimRun[int])
    assert len(pay.calls) == 2


api = Limit("api", rate="50/s", burst=10)
customers = Limit("customer", at_once=5)


@step(limits=[api, customers.by("name")], limit_wait="10m")
async def look_up(name: str) -> int:
    raise RetryAfter("1m", limit=api)


@look_up.limit(customers)
def key_of_look_up(name: str) -> str:
    return name.lower()


@workflow
async def charge_all(count: int) -> str:
    return str(count)


by_night = Schedule("nightly", charge_all(3), cron="0 3 * * *", tz="Europe/Berlin")


async def use_queues() -> None:
    emails = Queue(
        "emails", at_once=20, per_worker=5, rate="100/m", shares={"gold": 3}, share_at_once=2, parked="frees"
    )
    App("memory://", queues=[emails])
    sync.App("memory://", queues=[emails])
    assert_type(await app.start(charge_all(1), queue="emails", share="tenant-7"), Run[str])
    assert_type(await app.queues(), list[QueueView])
    await app.pause_queue("emails", "provider is down")
    await app.resume_queue("emails")


async def use_schedules() -> None:
    assert_type(await look_up("ann"), int)
    assert_type(by_night, Schedule[str])
    Schedule("pulse", charge_all(1), every="15m", jitter="30s", overlap="buffer_one", missed="all", catch_up="2h")
    App("memory://", schedules=[by_night])
    handle = await app.schedule(Schedule("once", charge_all(2), at=[datetime(2026, 12, 24, tzinfo=UTC)], times=1))
    assert_type(handle, ScheduleHandle[str])
    await handle.pause(reason="stock-taking")
    assert_type(await handle.trigger(), Run[str])
    assert_type(await (await app.get_schedule("nightly", charge_all)).trigger(), Run[str])
    async for slot in handle.backfill(datetime.now(UTC), datetime.now(UTC), most=10):
        assert_type(slot.run, str)
    async for view in app.schedules():
        assert_type(view, ScheduleView)
        assert_type(view.next, datetime | None)


anything = load_flow("order.yaml")
typed = load_flow("order.yaml", input=Order, output=str)


async def use_flows(order: Order) -> None:
    assert_type(anything, Flow[Any, Any])
    assert_type(load_flow("order.yaml", input=Order), Flow[Order, Any])
    typed_call: Call[str] = typed(order, vars={"region": "eu"})
    assert_type(await app.start(typed_call, id="flow-1"), Run[str])
    f = FlowBuilder("tip", saga=True)
    tip = f.call("tip", charge, {"order": f.input["order"]}, when=f.input["cents"] > 100, otherwise=None)
    gate = f.approve("ok", "finance", timeout="2d", then=f.escalate(["ann"]))
    built = f.build({"payment": tip, "by": gate["by"].otherwise("nobody"), "sum": 1 + f.input["a"] * 2})
    assert_type(built, Flow[Any, Any])
    assert_type(built.diagram("svg"), str)


class Spans(Hook):
    @contextmanager
    def step(self, at: Current) -> Generator[None]:
        assert_type(at.idempotency_key, str)
        yield

    def on(self, fact: Fact) -> None:
        match fact:
            case facts.StepCompleted():
                assert_type(fact.seconds, float | None)
            case facts.RunEnded(run=run, status=status):
                assert_type((run, status), tuple[str, Literal["completed", "cancelled"]])
            case _:
                pass


class Scopes(Hook):
    def step(self, at: Current) -> AbstractContextManager[object]:
        return nullcontext(at)


hooked = App(hooks=[Spans(), Scopes()])
hooked_sync = sync.App(hooks=(Spans(),))


# -- updates, watched values, attributes -------------------------------------------------------------------------------

double = Update[int, str]("double", check=lambda n: "negative" if n < 0 else None)
plain_double = sync.Update[int, str]("double")
percent = RunVar[int]("percent")


@workflow(accepts=(double,))
async def asked() -> str:
    set_attributes({"tenant-id": "7"}, tier=None, approver="bob")
    async with double.take() as ask:
        assert_type(ask, Ask[int, str])
        assert_type(ask.value, int)
        ask.answer(str(2 * ask.value))
    async with double.take(timeout="1h", default=None) as late:
        assert_type(late, Ask[int, str] | None)
        if late is not None:
            late.refuse("no more")

    async def answer(n: int) -> str:
        return str(n)

    double.serve(answer, check=lambda n: None if n else "zero")
    return current().attributes["tier"]


@workflow
def asked_plainly() -> str:
    with plain_double.take(timeout="1h", default="none") as ask:
        assert_type(ask, Ask[int, str] | str)
    plain_double.serve(str)
    return "over"


async def asks(run: Run[str], blocking: sync.Run[str]) -> None:
    assert_type(await run.update(double, 2, id="q", timeout="5s"), str)
    assert_type(blocking.update(plain_double, 2), str)
    async for value in run.watch(percent):
        assert_type(value, int)
    for value in blocking.watch(percent):
        assert_type(value, int)
