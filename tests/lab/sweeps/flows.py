"""Declared flows, right ones and mistakes made with them: a flow is data, so what can be wrong is what it calls."""

from __future__ import annotations

import time

from holdfast import FlowBuilder, Permanent, Retry, Signal, current, now, sleep, step, workflow
from holdfast.sync import step as sync_step
from tests.lab.sweeps.correct import bank, correct
from tests.lab.sweeps.mistakes import mistake

# -- what they call ----------------------------------------------------------------------------------------------------


@step
async def price(sku: str) -> int:
    return len(sku) * 100


@step
async def pay(cents: int) -> str:
    bank().payments[current().idempotency_key] = cents
    return f"paid {cents}"


@pay.undo
async def pay_back(payment: str, cents: int) -> None:
    bank().payments[current().idempotency_key] = -cents


@step(retry=Retry(3, first="1s"))
async def unsteady(value: int) -> int:
    if current().attempt == 1:
        raise ConnectionError("once")
    return value


@step
async def refuse(reason: str) -> str:
    raise Permanent(reason)


@workflow
async def tomorrow(name: str) -> str:
    await sleep("1d")
    return f"{name} at {now().isoformat()}"


# -- right -------------------------------------------------------------------------------------------------------------

f = FlowBuilder("flow_together")
left = f.call("left", price, {"sku": f.input["sku"]})
right = f.call("right", unsteady, {"value": 7})
total = f.call("total", pay, {"cents": left + right})
correct("a flow whose steps run together", {"sku": "abc"})(f.build({"left": left, "right": right, "total": total}))

f = FlowBuilder("flow_each")
prices = f.call("prices", price, {"sku": f.item}, each=f.input["skus"], limit=2)
paid = f.call("paid", pay, {"cents": f.item}, each=prices)
correct("a flow that goes through a list", {"skus": ["a", "bb", "ccc"]})(f.build(paid))

f = FlowBuilder("flow_below")
below = f.build(f.call("paid", pay, {"cents": f.input["cents"]}))
f = FlowBuilder("flow_above")
sent = f.call("sent", below, {"cents": 5})
later = f.call("later", tomorrow, {"name": "parcel"})
correct("a flow with a flow and a script below it", None)(f.build({"sent": sent, "later": later}))

approved = Signal[bool]("approved")
ok = Signal[bool]("ok")
f = FlowBuilder("flow_waits")
answer = f.wait("answer", "approved", timeout="3d", default=False)
pause = f.sleep("pause", "1h", needs=[answer])
asked = f.approve("ok", by="finance", timeout="2d", needs=[pause])
done = f.call("done", pay, {"cents": 3}, when=answer & asked["approved"], otherwise="nothing")
correct("a flow that waits, sleeps and asks", None, signals=[(approved, True), "2h", (ok, True)])(f.build(done))

f = FlowBuilder("flow_saga", saga=True)
first = f.call("first", pay, {"cents": 1})
second = f.call("second", pay, {"cents": 2}, needs=[first])
third = f.call("third", refuse, {"reason": "no"}, needs=[second])
correct("a flow that undoes what it did", None)(f.build(third))

f = FlowBuilder("flow_goes_on")
broken = f.call("broken", refuse, {"reason": "no"}, on_error=0)
skipped = f.call("skipped", price, {"sku": "a"}, when=broken > 0, otherwise=-1)
noted = f.call("noted", pay, {"cents": 1}, always=True)
correct("a flow that goes on after an error", None)(f.build({"broken": broken, "skipped": skipped}))

# -- wrong -------------------------------------------------------------------------------------------------------------

sold: list[str] = []
stock = {"a": 5, "b": 5}
refunds: list[int] = []
seen: list[str] = []


@step
async def sell(sku: str) -> str:
    sold.append(sku)
    return sku


@sync_step
def take(sku: str) -> int:
    stock[sku] -= 1
    return 1


@step
async def book(cents: int) -> int:
    return cents


@book.undo
async def unbook(booking: int, cents: int) -> None:
    refunds.append(cents)


@step
async def nth(sku: str) -> str:
    return f"{sku}, attempt {current().attempt}"


@workflow
async def stamps(name: str) -> str:
    return f"{name} at {time.time()}"


@workflow
async def remembers(name: str) -> str:
    seen.append(name)
    return f"{name} is number {len(seen)}"


f = FlowBuilder("flow_sells")
mistake("a flow: a component that is not safe to repeat", {"sku": "a"})(
    f.build(f.call("sold", sell, {"sku": f.input["sku"]}))
)

f = FlowBuilder("flow_takes")
mistake("a flow: items that count something down", {"skus": ["a", "b"]})(
    f.build(f.call("taken", take, {"sku": f.item}, each=f.input["skus"]))
)

f = FlowBuilder("flow_unbooks", saga=True)
booked = f.call("booked", book, {"cents": 5})
mistake("a flow: an undo that is not safe to repeat", None)(
    f.build(f.call("refused", refuse, {"reason": "no"}, needs=[booked]))
)

f = FlowBuilder("flow_attempts")
mistake("a flow: a result that names the attempt", None)(f.build(f.call("nth", nth, {"sku": "a"})))

f = FlowBuilder("flow_stamps")
mistake("a flow: a script below it that asks the clock", None)(f.build(f.call("stamped", stamps, {"name": "a"})))

f = FlowBuilder("flow_below_sells")
selling = f.build(f.call("sold", sell, {"sku": f.input["sku"]}))
f = FlowBuilder("flow_above_sells")
mistake("a flow: a component of a sub-flow that is not safe to repeat", None)(
    f.build(f.call("below", selling, {"sku": "b"}))
)

f = FlowBuilder("flow_remembers")
mistake("a flow: a script below it that keeps a list", None)(f.build(f.call("seen", remembers, {"name": "a"})))
