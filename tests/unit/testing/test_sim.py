"""`Sim`: the real engine on virtual time. No test here waits, whatever it says about days."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

import tests.unit.testing.shop as a_shop
from holdfast import (
    App,
    DeadlineExceeded,
    Machine,
    ResultTimeout,
    Retry,
    RunCancelled,
    RunFailed,
    RunNotFound,
    Signal,
    Status,
    StepFailed,
    now,
    remote,
    rng,
    saga,
    sleep,
    step,
    uuid4,
    workflow,
)
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.errors import HoldfastError, NotAllowedHere, UnknownWorkflow
from holdfast.testing import Fake, Sim
from holdfast.testing.sim import BEGINNING
from holdfast.testing.virtual_loop import VirtualLoop
from tests.architecture.source import ROOT
from tests.unit.testing.shop import Order, approved, bill, charge, fulfil, prices, progress, ship, watch


@pytest.fixture
def sim() -> Iterator[Sim]:
    """The plugin's own is tested in test_plugin.py."""
    with Sim() as made:
        yield made


def paid(order: Order) -> str:
    return f"paid {order.cents}"


@pytest.fixture
def pay(sim: Sim) -> Fake:
    fake = Fake(charge, paid)
    sim.use(fake)
    return fake


def test_a_day_of_a_workflow_takes_no_time(sim: Sim, pay: Fake) -> None:
    """Contract: signals, sleeps, sync steps and children, driven from a plain function; the clock moves when asked."""
    began = sim.now
    run = sim.start(fulfil(Order("42")))
    run.signal(approved, True)
    sim.advance("1h")
    assert run.status() is Status.RUNNING
    sim.advance("1h")
    assert run.result() == "#42: shipped 42"
    assert sim.now - began == timedelta(hours=2)
    assert run.view().ended_at == sim.now
    assert [view.id for view in sim.runs()] == ["run-1", "run-1/ship"]


@pytest.mark.parametrize(
    ("bring", "told"),
    [
        (0, "waiting for signal approved, 3 d left. Send it with run.signal(approved, …), or let it time out with"),
        (1, "sleeping until 13:00 UTC, 1 h left. Let time pass with sim.advance('1h')."),
        (2, "run-1/ship is sleeping until 14:00 UTC, 1 h left. Let time pass with sim.advance('1h')."),
    ],
)
def test_a_missing_result_says_what_to_do(sim: Sim, pay: Fake, bring: int, told: str) -> None:
    """Contract: a result that is not there yet is an error that says what the run waits for, and what brings it."""
    run = sim.start(fulfil(Order("42")))
    if bring > 0:
        run.signal(approved, True)
    if bring > 1:
        sim.advance("1h")
    with pytest.raises(ResultTimeout) as refused:
        run.result()
    assert told in str(refused.value)
    assert "run run-1 has not ended" in str(refused.value)


def test_a_wait_times_out_at_its_time(sim: Sim, pay: Fake) -> None:
    run = sim.start(fulfil(Order("42")))
    sim.advance(timedelta(days=3) - timedelta(microseconds=1))
    assert run.wait() is None
    sim.advance(timedelta(microseconds=1))
    assert run.result() == "refused"


def test_a_result_may_be_given_time(sim: Sim, pay: Fake) -> None:
    """Contract: `timeout=` is virtual as well, and no more time passes than is needed."""
    began = sim.now
    run = sim.start(fulfil(Order("42")))
    with pytest.raises(ResultTimeout):
        run.result(timeout="1h")
    assert sim.now - began == timedelta(hours=1)
    run.signal(approved, True)
    assert run.result(timeout="1d") == "#42: shipped 42"
    assert sim.now - began == timedelta(hours=3)
    assert run.result(timeout="1d") == "#42: shipped 42"
    assert sim.now - began == timedelta(hours=3)


def test_years_pass_quickly(sim: Sim) -> None:
    @workflow
    async def yearly() -> int:
        for _ in range(30):
            await sleep("365d")
        return now().year

    run = sim.start(yearly())
    began = time.process_time()
    sim.advance("10950d")
    assert run.result() == 2055
    assert time.process_time() - began < 10


@pytest.mark.parametrize("days", [0, 100, 365 * 24, 365 * 90])
def test_a_timer_of_this_very_moment_comes_after_any_time(days: int) -> None:
    """Promise: a loop on virtual time does not turn forever around a timer that is due exactly now."""
    loop = VirtualLoop(VirtualClock(BEGINNING))
    loop.settle(timedelta(days=days, microseconds=506_157))
    called: list[bool] = []
    loop.call_at(loop.time(), called.append, True)
    loop.settle()
    loop.end()
    assert called


def test_retries_come_when_the_policy_says(sim: Sim) -> None:
    """Contract: no jitter: the third try of a step that fails twice comes after 1 s and 2 s."""
    tried: list[datetime] = []

    def failing(order: Order) -> str:
        tried.append(sim.now)
        if len(tried) < 3:
            raise ConnectionError("no line")
        return "at last"

    fake = Fake(charge, failing)
    sim.use(fake)
    run = sim.start(fulfil(Order("1")))
    assert "step charge failed, retrying in 1 s, attempt 2 of 3: no line" in run.waiting
    sim.advance("1m")
    assert [at - tried[0] for at in tried] == [timedelta(seconds=n) for n in (0, 1, 3)]
    assert len(fake.calls) == 3
    assert run.get(progress) == "at last"


def test_a_step_times_out_in_virtual_time(sim: Sim) -> None:
    """Contract: asyncio.sleep in the body of a step is virtual, and so is the limit of the step."""

    @step(timeout="30s", retry=Retry.none)
    async def slow() -> None:
        await asyncio.sleep(3600)

    @workflow
    async def impatient() -> str:
        try:
            await slow()
        except StepFailed as failed:
            return failed.type
        return "done"

    run = sim.start(impatient())
    with pytest.raises(ResultTimeout, match="The body of slow has not returned"):
        run.result()
    sim.advance("29s")
    assert run.wait() is None
    sim.advance("1s")
    assert run.result() == "TimeoutError"


def test_cancel_deadline_and_delay(sim: Sim) -> None:
    @workflow
    async def waits() -> None:
        await sleep("30d")

    cancelled, late, delayed = sim.start(waits()), sim.start(waits(), deadline="1h"), sim.start(waits(), delay="2d")
    cancelled.cancel(reason="changed my mind")
    with pytest.raises(RunCancelled, match="changed my mind"):
        cancelled.result()
    sim.advance("1h")
    with pytest.raises(RunFailed) as failed:
        late.result()
    assert failed.value.type == DeadlineExceeded.__name__
    assert delayed.status() is Status.PENDING
    assert "starts in 1 d 23 h" in delayed.waiting
    sim.advance("32d")
    assert delayed.status() is Status.COMPLETED


def test_undo_is_durable_here_too(sim: Sim) -> None:
    done: list[str] = []

    @step
    async def book(what: str) -> str:
        done.append(f"book {what}")
        return what

    @book.undo
    async def unbook(result: str, what: str) -> None:
        done.append(f"unbook {what}")

    @workflow
    async def trip() -> None:
        async with saga():
            await book("flight")
            await book("hotel")
            await sleep("1d")

    run = sim.start(trip())
    run.cancel()
    assert done == ["book flight", "book hotel", "unbook hotel", "unbook flight"]
    assert run.status() is Status.CANCELLED


def test_topics_reach_who_waits(sim: Sim) -> None:
    first, second = sim.start(watch()), sim.start(watch(), id="other")
    with pytest.raises(ResultTimeout, match=r"Send it with sim\.publish\(prices, …\)"):
        first.result()
    assert sim.publish(prices, 7) == ["run-1", "other"]
    assert (first.result(), second.result()) == (7, 7)


def test_pause_resume_and_retry(sim: Sim, pay: Fake) -> None:
    run = sim.start(fulfil(Order("42")))
    run.pause()
    run.signal(approved, True)
    with pytest.raises(ResultTimeout, match=r"paused \(operator\).*run\.resume\(\)"):
        run.result()
    run.resume()
    assert "sleeping" in run.waiting
    run.kill()
    again = run.retry()
    sim.advance("1d")
    assert again.result() == "#42: shipped 42"
    assert len(pay.calls) == 1, "what had completed is taken over"


def test_the_journal_so_far(sim: Sim, pay: Fake) -> None:
    """Contract: follow() ends where the journal ends, of a run that has not ended too."""
    run = sim.start(fulfil(Order("42")))
    types = [event.type for event in run.follow()]
    assert types == ["started", "claimed", "step", "done", "exposed", "wait"]


def test_children_by_another_name(sim: Sim) -> None:
    """Contract: what a body names through a module is served too."""

    @workflow
    async def parent() -> str:
        return await a_shop.ship(Order("7"))

    run = sim.start(parent())
    sim.advance("2d")
    assert run.result() == "shipped 7"


def test_a_child_that_is_not_named_is_asked_for(sim: Sim) -> None:
    @dataclass
    class Hidden:
        child = ship

    @workflow
    async def parent() -> str:
        return await vars(Hidden)["child"](Order("7"), express=True)  # type: ignore[no-any-return]

    run = sim.start(parent())
    with pytest.raises(ResultTimeout, match=r"no live worker holds workflow ship.*sim\.serve\(ship\)"):
        run.result()
    sim.serve(ship)
    sim.advance("1h")
    assert run.result() == "shipped 7"


def test_a_remote_workflow_is_faked_or_asked_for(sim: Sim) -> None:
    run = sim.start(bill(Order("1")))
    with pytest.raises(ResultTimeout, match=r"no live worker holds workflow invoice.*Fake\(invoice, …\)"):
        run.result()
    with pytest.raises(UnknownWorkflow, match=r"sim\.use\(Fake\(invoice, …\)\)"):
        sim.start(a_shop.invoice(Order("1")))
    with Sim() as other:
        fake = Fake(a_shop.invoice, lambda order, copies=1: f"{copies} x {order.id}")
        other.use(fake)
        assert other.start(bill(Order("9"))).result() == "1 x 9"
        assert fake.calls == [{"order": Order("9"), "copies": 1}]


def test_an_app_brings_its_settings() -> None:
    """Contract: Sim(app) serves what the app serves, with its policies."""

    @remote(name="ship")
    async def ship_elsewhere(order: Order, express: bool = False) -> str:
        raise NotImplementedError

    @step
    async def once() -> None:
        raise RuntimeError("broken")

    @workflow
    async def parent() -> str:
        try:
            await once()
        except StepFailed as failed:
            return f"{failed.attempts}, {await ship_elsewhere(Order('1'), express=True)}"
        return ""

    with Sim(App("memory://", workflows=[parent, ship], step_retry=Retry.none)) as sim:
        run = sim.start(parent())
        assert run.result(timeout="1h") == "1, shipped 1"


def test_the_outside_of_a_simulation(sim: Sim) -> None:
    with pytest.raises(RunNotFound):
        sim.get("nobody")
    sim.close()
    sim.close()
    with pytest.raises(HoldfastError, match="this simulation is closed"):
        sim.start(watch())


async def test_an_async_test_is_told(sim: Sim) -> None:
    """Contract: in a running loop the simulation would block it; the error says what to write."""
    with pytest.raises(NotAllowedHere, match=r"write `def test_…\(sim\)`"):
        sim.start(watch())
    with pytest.raises(NotAllowedHere):
        sim.advance("1h")


def test_the_clock_begins_where_the_test_says() -> None:
    with Sim(now=datetime(2031, 5, 4, tzinfo=UTC)) as sim:
        sim.advance("90m")
        assert sim.now == datetime(2031, 5, 4, 1, 30, tzinfo=UTC)


JOURNAL = """
import asyncio, hashlib
from holdfast.testing import Fake, Sim
from tests.unit.testing.shop import *
from tests.unit.testing.test_sim import chances
with Sim() as sim:
    sim.use(Fake(charge, lambda order: "paid"))
    runs = [sim.start(fulfil(Order(str(n)))) for n in range(5)] + [sim.start(chances())]
    for run in runs[1:4]:
        run.signal(approved, True)
    sim.publish(prices, 3)
    sim.advance("10d")
    text = repr([(e.seq, e.ordinal, e.type, e.at, e.data) for view in sim.runs() for e in sim.get(view.id).follow()])
    print(len(text), hashlib.sha256(text.encode()).hexdigest())
"""


@workflow
async def chances() -> str:
    order = await asyncio.gather(*(charge(Order(str(n))) for n in range(4)))
    return f"{uuid4()} {rng().random()} {order}"


def test_the_same_test_gives_the_same_journal() -> None:
    """Contract: order, ids, times and chance are the same in another process with other hashes."""
    told: set[str] = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", JOURNAL], env=env, capture_output=True, text=True, check=True, timeout=60
        )
        told.add(done.stdout)
    assert len(told) == 1, told
    assert int(told.pop().split()[0]) > 5000


answer = Signal[int]("answer")


def test_a_program_is_not_kept_by_a_closed_simulation() -> None:
    """Contract: closing ends bodies that still wait, and the program, without running what comes after."""
    ended: list[str] = []

    @step
    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("body")

    @workflow
    async def both() -> int:
        await asyncio.gather(hangs(), answer.wait())
        ended.append("never")
        return 1

    with Sim() as sim:
        sim.start(both())
    assert ended == ["body"]


@dataclass
class Reserve:
    order: Order


@dataclass
class Waiting:
    order: Order
    payment: str


@dataclass
class Delivered:
    text: str


parcel = Machine[Reserve, Delivered]("parcel")


@parcel.state
async def reserve(s: Reserve) -> Waiting:
    return Waiting(s.order, a_shop.till().take(s.order.cents))


@parcel.script
async def wait(s: Waiting) -> Delivered:
    if not await approved.wait(timeout="3d", default=False):
        return Delivered("not approved")
    return Delivered(f"{s.payment}, {await ship(s.order)}")


def test_a_machine_runs_here_as_well(sim: Sim) -> None:
    """Contract: its states, their resources and children are found; its waits are virtual."""
    run = sim.start(parcel(Reserve(Order("5", 7))))
    assert "waiting for signal approved" in run.waiting
    run.signal(approved, True)
    sim.advance("2d")
    assert run.result() == Delivered("took 7, shipped 5")
