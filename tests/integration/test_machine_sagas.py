"""Sagas at work: many at once over one table of accounts, and the same order as a script and as a machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    App,
    CompensationFailed,
    Conflict,
    Machine,
    Permanent,
    Retry,
    RunFailed,
    Status,
    saga,
    step,
    workflow,
)
from holdfast.errors import UnknownWorkflow
from holdfast.testing import Sim
from holdfast.testing.machines import MemoryLog
from tests.support.world import World, events

ONCE = Retry.none


# -- two hundred transfers ---------------------------------------------------------------------------------------------


@dataclass
class Take:
    source: str
    target: str
    cents: int


@dataclass
class Give:
    source: str
    target: str
    cents: int


@dataclass
class Confirm:
    target: str
    cents: int


@dataclass
class Moved:
    cents: int


class Bank:
    """Accounts with a check that none is ever overdrawn, and a machine that moves money between them."""

    def __init__(self) -> None:
        self.accounts = {f"a{n}": 100 for n in range(10)}
        self.lowest = 100
        self.machine = machine = Machine[Take, Moved]("move", retry=ONCE)

        async def change(account: str, cents: int) -> None:
            await asyncio.sleep(0)
            if self.accounts[account] + cents < 0:
                raise ValueError("not enough")
            self.accounts[account] += cents
            self.lowest = min(self.lowest, *self.accounts.values())

        @machine.state
        async def take(s: Take) -> Give:
            await change(s.source, -s.cents)
            return Give(s.source, s.target, s.cents)

        @take.undo(retry=Retry(20, first="1ms"))
        async def put_back(left: Give, s: Take) -> None:
            await change(s.source, s.cents)

        @machine.state
        async def give(s: Give) -> Confirm:
            await change(s.target, s.cents)
            return Confirm(s.target, s.cents)

        @give.undo(retry=Retry(200, first="1ms", ceiling="2ms"))
        async def take_back(left: Confirm, s: Give) -> None:
            await change(s.target, -s.cents)

        @machine.state
        async def confirm(s: Confirm) -> Moved:
            await asyncio.sleep(0)
            if s.cents % 3 == 0:
                raise ValueError("refused")
            return Moved(s.cents)

    def transfers(self) -> list[Take]:
        """Two hundred of them; about a third is refused at the end, some find too little."""
        return [Take(f"a{n % 10}", f"a{(n * 7 + 3) % 10}", 5 + n % 40) for n in range(200)]


@pytest.mark.spec("cano.S2", "cano.K1")
async def test_two_hundred_sagas_over_one_table_leave_the_balance_right() -> None:
    """Promise: standalone, all at once: no money is made or lost, no account was ever overdrawn."""
    bank, log = Bank(), MemoryLog()
    runs = [bank.machine.run(take, store=log, id=f"run-{n}") for n, take in enumerate(bank.transfers())]
    ends = await asyncio.gather(*runs, return_exceptions=True)
    assert sum(isinstance(end, Moved) for end in ends) > 20
    assert sum(isinstance(end, Exception) for end in ends) > 20
    assert not [end for end in ends if isinstance(end, CompensationFailed)]
    assert sum(bank.accounts.values()) == 1000
    assert bank.lowest >= 0


async def test_two_hundred_sagas_under_an_app(world: World) -> None:
    """Promise: the same under workers."""
    bank = Bank()
    async with world.serving(bank.machine) as app:
        runs = [await app.start(bank.machine(take), id=f"run-{n}") for n, take in enumerate(bank.transfers())]
        statuses = [await run.wait("60s") for run in runs]
    assert {Status.COMPLETED, Status.FAILED} == set(statuses)
    assert sum(bank.accounts.values()) == 1000
    assert bank.lowest >= 0


# -- the same order twice ----------------------------------------------------------------------------------------------


@dataclass
class Reserve:
    order: str


@dataclass
class Charge:
    shelf: str


@dataclass
class Ship:
    payment: str


@dataclass
class Done:
    parcel: str


def order_machine(told: list[str], broken: bool) -> Machine[Reserve, Done]:
    """The order saga as a machine."""
    machine = Machine[Reserve, Done]("order", retry=ONCE)

    @machine.state
    async def reserve(s: Reserve) -> Charge:
        told.append(f"reserve {s.order}")
        return Charge(f"shelf of {s.order}")

    @reserve.undo
    async def release(left: Charge, s: Reserve) -> None:
        told.append(f"release {left.shelf}")

    @machine.state
    async def charge(s: Charge) -> Ship:
        told.append(f"charge for {s.shelf}")
        return Ship(f"payment for {s.shelf}")

    @charge.undo
    async def refund(left: Ship, s: Charge) -> None:
        told.append(f"refund {left.payment}")

    @machine.state
    async def ship(s: Ship) -> Done:
        told.append(f"ship with {s.payment}")
        if broken:
            raise ValueError("no van")
        return Done(s.payment)

    return machine


def order_script(told: list[str], broken: bool) -> Any:
    """The same saga as a script."""

    @step(retry=ONCE)
    async def reserve(order: str) -> str:
        told.append(f"reserve {order}")
        return f"shelf of {order}"

    @reserve.undo
    async def release(shelf: str, order: str) -> None:
        told.append(f"release {shelf}")

    @step(retry=ONCE)
    async def charge(shelf: str) -> str:
        told.append(f"charge for {shelf}")
        return f"payment for {shelf}"

    @charge.undo
    async def refund(payment: str, shelf: str) -> None:
        told.append(f"refund {payment}")

    @step(retry=ONCE)
    async def ship(payment: str) -> str:
        told.append(f"ship with {payment}")
        if broken:
            raise ValueError("no van")
        return payment

    @workflow(name="order")
    async def order(order: str) -> str:
        async with saga():
            return await ship(await charge(await reserve(order)))

    return order


@pytest.mark.parametrize("broken", [False, True])
async def test_a_script_and_a_machine_do_the_same_and_write_the_same(world: World, broken: bool) -> None:
    """Promise: the same effects in the same order, the same rows with the same kinds of facts."""
    effects: list[list[str]] = []
    journals: list[list[tuple[int, str]]] = []
    calls: list[tuple[Any, Any]] = []
    for make in (order_script, order_machine):
        told: list[str] = []
        definition: Any = make(told, broken)
        effects.append(told)
        calls.append((definition, definition("42") if make is order_script else definition(Reserve("42"))))
    for n, (definition, call) in enumerate(calls):
        async with world.serving(definition) as app:
            run = await app.start(call, id=f"run-{n}")
            await run.wait("30s")
            journals.append([(event.ordinal, event.type) for event in await events(run)])
    assert effects[0] == effects[1]
    assert journals[0] == journals[1]
    assert effects[0][-1] == ("release shelf of 42" if broken else "ship with payment for shelf of 42")


# -- finishing a rollback by hand --------------------------------------------------------------------------------------


def stuck_machine(told: list[str], stuck: set[str], *, is_whole: bool = True) -> Machine[Reserve, Done]:
    """An order whose undo may refuse to work, or that has lost the undo of its first state."""
    machine = Machine[Reserve, Done]("stuck", retry=ONCE)

    @machine.state
    async def reserve(s: Reserve) -> Charge:
        return Charge("B7")

    if is_whole:

        @reserve.undo
        async def release(left: Charge, s: Reserve) -> None:
            if "release" in stuck:
                raise ValueError("stuck")
            told.append(f"release {left.shelf} of {s.order}")

    @machine.state
    async def charge(s: Charge) -> Ship:
        return Ship("pay-1")

    @charge.undo
    async def refund(left: Ship, s: Charge) -> None:
        if "refund" in stuck:
            raise ValueError("stuck")
        told.append(f"refund {left.payment}")

    @machine.state
    async def ship(s: Ship) -> Done:
        raise ValueError("no van")

    return machine


@pytest.mark.spec("cano.S4", "cano.S5")
async def test_a_dirty_rollback_is_finished_by_a_run_of_its_own(world: World) -> None:
    """Promise: it undoes only what is left, in order, from the old journal; again it does nothing."""
    told: list[str] = []
    stuck = {"release", "refund"}
    machine = stuck_machine(told, stuck)
    async with world.serving(machine) as app:
        run = await app.start(machine(Reserve("42")), id="run")
        assert await run.wait("30s") is Status.FAILED
        failed = await app.compensate("run")
        with pytest.raises(RunFailed, match="stuck"):
            await failed.result("30s")
        stuck.clear()
        finished = await app.compensate("run")
        assert await finished.result("30s") == ["Charge", "Reserve"]
        assert (failed.id, finished.id) == ("run~undo", "run~undo2")
        again = await app.compensate("run")
        assert await again.result("30s") == ["Charge", "Reserve"]
    assert told == ["refund pay-1", "release B7 of 42"]


async def test_a_second_rollback_by_hand_undoes_only_what_the_first_left(world: World) -> None:
    """Promise: what was undone is not undone again."""
    told: list[str] = []
    stuck = {"release", "refund"}
    machine = stuck_machine(told, stuck)
    async with world.serving(machine) as app:
        run = await app.start(machine(Reserve("42")), id="run")
        assert await run.wait("60s") is Status.FAILED
        stuck.remove("refund")
        with pytest.raises(RunFailed, match="stuck"):
            await (await app.compensate("run")).result("60s")
        stuck.clear()
        assert await (await app.compensate("run")).result("60s") == ["Reserve"]
        assert (await app.compensate("run")).id == "run~undo2"
    assert told == ["refund pay-1", "release B7 of 42"]


@pytest.mark.spec("cano.S4", "cano.S5")
async def test_a_rollback_by_hand_fails_if_one_state_has_no_undo_any_more(world: World) -> None:
    """Promise: the others are undone, and it names the state that is left."""
    told: list[str] = []
    stuck = {"release", "refund"}
    async with world.serving(stuck_machine(told, stuck)) as app:
        run = await app.start(stuck_machine(told, stuck)(Reserve("42")), id="run")
        assert await run.wait("30s") is Status.FAILED
    stuck.clear()
    async with world.serving(stuck_machine(told, stuck, is_whole=False)) as app:
        with pytest.raises(RunFailed, match="Reserve: state Reserve has no undo in this machine"):
            await (await app.compensate("run")).result("30s")
    assert told == ["refund pay-1"]


@pytest.mark.spec("cano.S3")
@pytest.mark.parametrize(("own", "policy", "tries"), [(Retry(3), Retry(2), 3), (None, Retry(2), 2), (None, None, 10)])
def test_an_undo_is_tried_by_its_own_policy_or_the_machines_or_ten_times(
    own: Retry | None, policy: Retry | None, tries: int
) -> None:
    """Promise: under an app too, and each failure is tried again like that of a step."""
    tried: list[int] = []
    machine = Machine[Reserve, Done]("policies", retry=policy)

    @machine.state
    async def reserve(s: Reserve) -> Charge:
        return Charge("B7")

    @reserve.undo(retry=own)
    async def release(left: Charge, s: Reserve) -> None:
        tried.append(1)
        raise ValueError("stuck")

    @machine.state
    async def charge(s: Charge) -> Done:
        raise Permanent("no")

    with Sim(App("memory://", workflows=[machine])) as sim, pytest.raises(RunFailed, match="stuck"):
        sim.start(machine(Reserve("42"))).result("1d")
    assert len(tried) == tries


async def test_what_cannot_be_compensated_says_why(world: World) -> None:
    """Promise: a run that goes on, one that left nothing, one of a script, each its own error."""

    @step(retry=ONCE)
    async def book() -> int:
        return 1

    @book.undo
    async def unbook(result: int) -> None:
        raise ValueError("stuck")

    @workflow
    async def script() -> None:
        async with saga():
            await book()
            raise ValueError("no")

    told: list[str] = []
    machine = stuck_machine(told, set())
    async with world.serving(machine, script, step_retry=ONCE) as app:
        run = await app.start(machine(Reserve("42")), id="clean")
        await run.wait("30s")
        with pytest.raises(Conflict, match="nothing undone"):
            await app.compensate("clean")
        dirty = await app.start(script(), id="script")
        assert await dirty.wait("30s") is Status.FAILED
        with pytest.raises(UnknownWorkflow, match="not a machine"):
            await app.compensate("script")
    waiting = App(workflows=[machine], store=world.store)
    await waiting.start(machine(Reserve("1")), id="open", delay="1h")
    with pytest.raises(Conflict, match="ended"):
        await waiting.compensate("open")
