"""What is there before a reader types the commands of a page: files, runs, and a worker that serves them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Signal
from holdfast.authoring.script.named import named_by
from holdfast.cli.root import run
from holdfast.errors import StoreUnavailable
from holdfast.ports.runs import Filter
from holdfast.worker.line_loop import rules_of

SHOP = """
from __future__ import annotations

from dataclasses import dataclass

from holdfast import App, Signal, Topic, step, workflow

approved = Signal[bool]("approved")
prices = Topic[dict[str, int]]("prices")


@dataclass
class Order:
    id: str
    cents: int


@step
async def charge(order: Order) -> str:
    return f"payment-{order.id}"


@workflow
async def fulfil(order: Order) -> str:
    payment = await charge(order)
    return payment if await approved.wait(timeout="3d", default=False) else "not approved"


@workflow
async def watch() -> dict[str, int]:
    return await prices.wait()


@workflow
async def price(sku: str) -> int:
    return len(sku)


app = App(workflows=[fulfil, watch, price])
"""

FLOW = """
holdfast: 1
name: order
input: {type: object, required: [sku]}
steps:
  price: {call: shop.price, with: {sku: "${input.sku}"}}
output: {cents: "${steps.price}"}
"""

ALL = Filter()
ORDER = '{"order": {"id": "42", "cents": 999}}'

Prepare = Callable[[App], Awaitable[None]]


async def orders_wait(app: App) -> None:
    """Orders 42 and 43 wait to be approved, and a run waits on the topic."""
    shop: Any = sys.modules["shop"]
    for number in ("42", "43"):
        await app.start(shop.fulfil(shop.Order(number, 999)), id=f"order-{number}")
    await app.start(shop.watch(), id="watch")
    for name in ("order-42", "order-43", "watch"):
        await _until(app, name, "waiting")


async def order_is_paused(app: App) -> None:
    """An operator has paused it."""
    await orders_wait(app)
    await (await app.get("order-42")).pause("let me look")
    await _until(app, "order-42", "paused")


async def order_has_ended(app: App) -> None:
    """It was killed."""
    await orders_wait(app)
    await (await app.get("order-42")).kill("enough")


async def message_is_wrong(app: App) -> None:
    """A process without the code sent it a third message that it cannot read."""
    await orders_wait(app)
    async with App(app.url) as stranger:
        sent_to = await stranger.get("order-42")
        await sent_to.signal(Signal[str]("note"), "one")
        await sent_to.signal(Signal[str]("note"), "two")
        await sent_to.signal(Signal[str]("approved"), "yes please")
    await _until(app, "order-42", "paused")


async def orders_are_approved(app: App) -> None:
    """Whatever waits is approved, for as long as the scene lasts."""

    async def approve() -> None:
        with suppress(StoreUnavailable):  # the scene has ended
            while True:
                async for view in app.runs(workflow="fulfil", status="running"):
                    await (await app.get(view.id)).signal(Signal[bool]("approved"), True, id="ok")
                await asyncio.sleep(0.02)

    _people.add(asyncio.ensure_future(approve()))


async def start_price(app: App, sku: str) -> None:
    """One more run."""
    shop: Any = sys.modules["shop"]
    await app.start(shop.price(sku))


async def order_waits_and_has_no_file(app: App) -> None:
    """Nothing is overwritten."""
    (Path.cwd() / "order.json").unlink()
    await orders_wait(app)


async def order_was_exported(app: App) -> None:
    """From another store."""
    shop: Any = sys.modules["shop"]
    elsewhere = App("sqlite:///elsewhere.db", workflows=[shop.price])
    async with elsewhere.worker():
        await elsewhere.start(shop.price("sku"), id="order-42")
    (Path.cwd() / "order.json").unlink()
    await asyncio.to_thread(_export)


def _export() -> None:
    with pytest.raises(SystemExit):
        run(["export", "order-42", "-o", "order.json", "--url", "sqlite:///elsewhere.db"])


async def nothing(app: App) -> None:
    """An empty store."""


async def document_waits(app: App) -> None:
    """Document 7 waits for a question, as the Python block before it starts it."""
    approvals: Any = sys.modules["approvals"]
    await app.start(approvals.approve("ann"), id="doc-7")
    await _until(app, "doc-7", "waiting")


async def once_is_scheduled(app: App) -> None:
    """As the Python block before it does."""
    from datetime import UTC, datetime, timedelta

    from holdfast import Schedule

    shop: Any = sys.modules["shop"]
    await app.schedule(Schedule("once", shop.reprice(["sku-9"]), at=[datetime.now(UTC) + timedelta(hours=1)]))


async def all_is_declared(app: App) -> None:
    """A worker declares its schedules and limits a moment after it has started."""
    store = (await app.client()).store
    limits = rules_of(named_by(app.registry.bodies())).keys()
    async with asyncio.timeout(20):
        while True:
            known = {each.name for each in await store.schedules()}
            if app.declared.keys() <= known and limits <= {each.name for each in await store.limits()}:
                return
            await asyncio.sleep(0.005)


_people: set[asyncio.Task[None]] = set()


async def _until(app: App, run: str, word: str) -> None:
    async with asyncio.timeout(20):
        while True:
            view = await (await app.get(run)).view()
            if word in f"{view.status} {view.waiting}":
                return
            await asyncio.sleep(0.005)


@dataclass(frozen=True)
class Scene:
    """A page: the app that its commands are about, files that it only mentions, and what is done before the command
    that begins with certain words, the longest first. Every command is typed alone, in a folder of its own; if the
    scene `is_told`, each builds on those before it."""

    app: str = "shop:app"
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    prepare: Mapping[str, Prepare] = field(default_factory=dict[str, Prepare])
    is_told: bool = False

    def before(self, words: str) -> Prepare:
        """What is done before this command."""
        fitting = [begin for begin in self.prepare if words.startswith(begin)]
        return self.prepare[max(fitting, key=len)] if fitting else nothing


FILES = {
    "shop.py": SHOP,
    "holdfast.toml": 'app = "shop:app"\n',
    "order.json": ORDER,
    "order.yaml": FLOW,
    "skus.jsonl": '{"sku": "sku-1"}\n',
}

OFFICE = {
    "office.py": "from approvals import approve\nfrom holdfast import App\n\napp = App(workflows=[approve])\n",
    "holdfast.toml": 'app = "office:app"\n',
}

ACTS: Mapping[str, Prepare] = {
    "": orders_wait,
    "start": orders_are_approved,
    "resume": order_is_paused,
    "retry order-42": order_has_ended,
    "delete": order_has_ended,
    "messages": message_is_wrong,
    "export": order_waits_and_has_no_file,
    "import": order_was_exported,
    "manifest": nothing,
}

SCENES: Mapping[str, Scene] = {
    "docs/guides/running.md": Scene("service:app", is_told=True),
    "docs/guides/flows.md": Scene("app:app", {"orders.jsonl": '{"id": 1, "items": ["a"]}\n'}, is_told=True),
    "docs/guides/batches.md": Scene("prices:app", {"skus.jsonl": '{"sku": "sku-1"}\n'}),
    "docs/guides/lint.md": Scene(files=FILES),
    "docs/guides/limits.md": Scene("pricing:app", {"holdfast.toml": 'app = "pricing:app"\n'}, is_told=True),
    "docs/guides/queues.md": Scene("post:app", {"holdfast.toml": 'app = "post:app"\n'}, is_told=True),
    "docs/guides/updates.md": Scene("office:app", OFFICE, {"update": document_waits}),
    "docs/guides/http.md": Scene(files=FILES, is_told=True),
    "docs/guides/schedules.md": Scene(prepare={"schedules list": once_is_scheduled}, is_told=True),
    "docs/guides/signals.md": Scene(files=FILES, prepare={"": message_is_wrong, "resume": order_is_paused}),
    "docs/guides/command-line.md": Scene(files=FILES, prepare=ACTS),
}
"""The pages with shell blocks."""
