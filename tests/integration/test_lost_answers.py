"""Answers that never come: the connection is cut after the server has done what it was asked. One run per key, every
body once, every message once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from holdfast import App, Run, Signal, current, step, workflow
from holdfast.core import events as e
from holdfast.core.turn import decode_rows
from holdfast.ports.runs import Filter
from tests.support.postgres import clean_url, server_port
from tests.support.proxy import WRITES, Proxy

RUNS = 100
KEYS = ("reserve", "charge", "ship")
approved = Signal[int]("approved")
ledger: Counter[tuple[str, str]] = Counter()


def note() -> None:
    here = current()
    ledger[here.run_id, here.key] += 1


@step
async def reserve(order: int) -> int:
    note()
    return order


@step
async def charge(order: int) -> int:
    note()
    return order + 1


@step
async def ship(order: int, tip: int) -> int:
    note()
    return order + tip


@workflow
async def ordered(order: int) -> int:
    paid = await charge(await reserve(order))
    return await ship(paid, await approved.wait())


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("percent", [1, 3, 5])
@pytest.mark.spec("stepflow.J13", "openworkflow.O93")
async def test_a_lost_answer_does_nothing_twice_and_loses_nothing(
    percent: int, record_property: Callable[[str, object], None]
) -> None:
    """Promise: of all writes (starts, claims, turns, messages) so many are done and never answered. Whoever asked asks
    again and is recognised: one run for each key, each body begun once, each signal taken once, every run completed."""
    calls = count(1)

    def cuts(data: bytes) -> bool:
        return any(word in data for word in WRITES) and next(calls) % (100 // percent) == 0

    ledger.clear()
    with Proxy(server_port(), cuts) as proxy:
        url = clean_url("&notices=off").replace(str(server_port()), str(proxy.port))
        app = App(url, workflows=[ordered])
        async with app, app.worker(id="w", ttl="120s", poll="200ms"):
            runs: list[Run[int]] = []
            for number in range(RUNS):
                run = await app.start(ordered(number), key=f"order-{number}")
                again = await app.start(ordered(number), key=f"order-{number}")
                assert again.id == run.id
                await run.signal(approved, 7, id="yes")
                await again.signal(approved, 7, id="yes")
                runs.append(run)
            assert [await run.result("120s") for run in runs] == [number + 8 for number in range(RUNS)]
            store: Any = (await app.client()).store
            listed = (await store.list(Filter(), limit=2 * RUNS)).runs
            rows = await store.read({row.no: 1 for row in listed})
    record_property("figure", f"{proxy.cut} of {next(calls) - 1} writes never answered ({percent} %), {RUNS} runs")
    assert proxy.cut >= 3
    assert {row.id for row in listed} == {run.id for run in runs}
    assert Counter(row.key for row in listed) == Counter(f"order-{number}" for number in range(RUNS))
    assert ledger == Counter({(run.id, key): 1 for run in runs for key in KEYS})
    for journal in rows.values():
        facts = [event for turn in decode_rows(journal) for event in turn.events]
        assert [x.key for x in facts if isinstance(x, e.StepCompleted)] == list(KEYS)
        assert sum(isinstance(x, e.SignalReceived) for x in facts) == 1
        assert isinstance(facts[-1], e.Completed)
