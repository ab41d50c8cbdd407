"""The project that `holdfast init` writes, as texts. A test runs every file."""

from __future__ import annotations

from collections.abc import Mapping

ORDERS = '''"""The steps and the workflow of this project. app.py serves them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast import Retry, Signal, current, log, sleep, step, workflow

approved = Signal[bool]("approved")


@dataclass
class Order:
    id: str
    cents: int


@step(retry=Retry(5, first="1s"), timeout="30s")
async def charge(order: Order) -> str:
    """Reach the outside world in steps only: their results are recorded, and a completed step never runs again."""
    log.info("charging %d cents, as %s", order.cents, current().idempotency_key)
    return f"payment-{order.id}"


@step
async def notify(kind: str, order: Order) -> None:
    log.info("telling the customer of order %s by %s", order.id, kind)


@workflow
async def fulfil(order: Order) -> str:
    """Ordinary code. It may wait for days, and survives crashes, restarts and deploys."""
    payment = await charge(order)
    if not await approved.wait(timeout="3d", default=False):
        return f"order {order.id} was not approved"
    await sleep("2s")
    await asyncio.gather(notify("mail", order), notify("text message", order))
    return f"order {order.id} is paid with {payment}"
'''

APP = '''"""The app: `holdfast worker` serves its workflows, and holdfast.toml names its store."""

from __future__ import annotations

from holdfast import App

from orders import fulfil

app = App(workflows=[fulfil])
'''

EXAMPLE = '''"""Starts an order, approves it and waits for its end, with a worker of its own: python example.py"""

from __future__ import annotations

import asyncio

from app import app
from orders import Order, approved, fulfil


async def main() -> None:
    async with app.worker():
        run = await app.start(fulfil(Order("1", 999)), id="order-1")  # the same id again is the same run
        if not (await run.status()).is_terminal:
            await run.signal(approved, True)
        print(await run.result(timeout="1m"))


if __name__ == "__main__":
    asyncio.run(main())
'''

TEST = '''"""Tests on virtual time: the fixture `sim` comes with Holdfast. Run them with: pytest"""

from __future__ import annotations

from holdfast.testing import Fake, Sim

from orders import Order, approved, charge, fulfil

pay = Fake(charge, lambda order: "payment-7")


def test_an_approved_order_is_paid(sim: Sim) -> None:
    sim.use(pay)
    run = sim.start(fulfil(Order("7", 999)))
    run.signal(approved, True)
    sim.advance("2s")
    assert run.result() == "order 7 is paid with payment-7"


def test_an_order_is_not_waited_for_longer_than_three_days(sim: Sim) -> None:
    sim.use(pay)
    run = sim.start(fulfil(Order("8", 999)))
    sim.advance("3d")
    assert run.result() == "order 8 was not approved"
'''

CONFIG = """# Every key is optional; `holdfast config` shows all of them, and where each value came from.
app = "app:app"

[store]
url = "sqlite:///holdfast.db"       # relative to this file

[worker]
concurrency = 100
grace = "30s"                       # how long steps may run after Ctrl-C
"""

PYTEST = """\
# Keeps pytest settings of parent folders out of this project.
[pytest]
pythonpath = .
"""

IGNORED = "holdfast.db*\n__pycache__/\n.pytest_cache/\n.venv/\n"

FILES: Mapping[str, str] = {
    "orders.py": ORDERS,
    "app.py": APP,
    "example.py": EXAMPLE,
    "test_orders.py": TEST,
    "pytest.ini": PYTEST,
    ".gitignore": IGNORED,
    "holdfast.toml": CONFIG,
}
"""The files in the order of writing: the configuration last, so that a project that has it is complete."""
