"""`Fake`: the same parameters, the same result, in the place of the real thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Machine, Retry, RunFailed, current, step, workflow
from holdfast.errors import DefinitionError
from holdfast.testing import Fake, Sim
from tests.unit.testing.shop import CardDeclined, Order, Till, charge, fulfil, label, progress, ship, till


@pytest.fixture
def sim() -> Iterator[Sim]:
    Till.log.clear()
    with Sim() as made:
        yield made


def test_a_faked_step_needs_no_resource(sim: Sim) -> None:
    """Contract: what only the real body asks for is not opened."""
    sim.use(Fake(charge, lambda order: "paid"))
    sim.start(fulfil(Order("1")))
    sim.close()
    assert Till.log == []


def test_a_resource_is_opened_and_closed_unless_it_is_faked(sim: Sim) -> None:
    run = sim.start(fulfil(Order("1", 5)))
    assert run.get(progress) == "took 5"
    sim.close()
    assert Till.log == ["opened", "closed"]


def test_a_faked_resource(sim: Sim) -> None:
    class Free(Till):
        def take(self, cents: int) -> str:
            return "nothing"

    sim.use(Fake(till, Free()))
    assert sim.start(fulfil(Order("1", 5))).get(progress) == "nothing"
    assert Till.log == []


def test_a_later_fake_takes_over(sim: Sim) -> None:
    sim.use(Fake(till, Till()))
    first = sim.start(fulfil(Order("1", 5)))
    sim.use(Fake(charge, lambda order: "later"))
    second = sim.start(fulfil(Order("2", 5)))
    assert (first.get(progress), second.get(progress)) == ("took 5", "later")


def test_an_async_fake_knows_its_step(sim: Sim) -> None:
    """Contract: the fake runs as the body: `current()` answers, and the key is the step's."""

    async def pay(order: Order) -> str:
        return f"{current().step} {current().attempt} {len(current().idempotency_key) > 10}"

    sim.use(Fake(charge, pay))
    assert sim.start(fulfil(Order("1"))).get(progress) == "charge 1 True"


def test_a_declared_error_of_a_fake_arrives_as_itself(sim: Sim) -> None:
    def declined(order: Order) -> str:
        raise CardDeclined(order.id)

    sim.use(Fake(charge, declined))
    run = sim.start(fulfil(Order("7")))
    with pytest.raises(CardDeclined) as refused:
        run.result()
    assert refused.value.args == ("7",)


def test_calls_hold_every_attempt_with_defaults(sim: Sim) -> None:
    @step(retry=Retry(2, first="1s"))
    async def mail(to: str, *, copies: int = 1) -> None: ...

    @workflow
    async def send() -> None:
        await mail("me")

    tries: list[int] = []

    def flaky(to: str, *, copies: int = 1) -> None:
        tries.append(copies)
        if len(tries) == 1:
            raise ConnectionError

    fake = Fake(mail, flaky)
    sim.use(fake)
    run = sim.start(send())
    assert run.result(timeout="1m") is None
    assert fake.calls == [{"to": "me", "copies": 1}] * 2


def test_a_result_of_another_type_fails_as_the_real_one_would(sim: Sim) -> None:
    wrong: Any = lambda order: 7  # noqa: E731
    sim.use(Fake(charge, wrong))
    run = sim.start(fulfil(Order("1")))
    with pytest.raises(RunFailed, match="result of charge"):
        run.result(timeout="1h")


@pytest.mark.parametrize(
    ("fake", "told"),
    [
        (lambda: "x", r"Fake\(label, …\): label takes \(order: 'Order'\) -> 'str', the fake takes \(\)"),
        (lambda order, more: "x", "missing a required argument: 'more'"),
        ("x", "give a function with the parameters of label"),
    ],
)
def test_a_fake_that_does_not_fit_is_refused(fake: Any, told: str) -> None:
    """Contract: also without a type checker, and where the fake is made."""
    with pytest.raises(DefinitionError, match=told):
        Fake(label, fake)


def test_only_definitions_are_faked() -> None:
    with pytest.raises(DefinitionError, match="a machine cannot be faked"):
        Fake(Machine[Order, Order]("parcel"), lambda order: order)
    thing: Any = print
    with pytest.raises(DefinitionError, match="give a step, a workflow or a resource first"):
        Fake(thing, print)


def test_a_faked_child_is_still_a_run(sim: Sim) -> None:
    fake = Fake(ship, lambda order, express=False: f"{order.id} by hand")
    sim.use(fake, Fake(charge, lambda order: "paid"))
    run = sim.start(ship(Order("3")))
    assert run.result() == "3 by hand"
    assert [view.workflow for view in sim.runs()] == ["ship"]
    assert fake.calls == [{"order": Order("3"), "express": False}]


def test_a_workflow_in_use_is_not_faked(sim: Sim) -> None:
    sim.start(ship(Order("3")))
    with pytest.raises(DefinitionError, match="use it before"):
        sim.use(Fake(ship, lambda order, express=False: "x"))
