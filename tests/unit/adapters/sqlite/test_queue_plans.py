"""How SQLite finds who may begin: by index, whatever the number of runs and shares that wait."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, open_sqlite, queue_statements
from holdfast.adapters.sqlite.claims import ClaimRuns
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.gate import Gate
from holdfast.core.turn import micros
from holdfast.ports.queues import QueueChange
from holdfast.testing.conformance.world import World, request
from tests.unit.adapters.sqlite.test_plans import Steps, plan

HOT: dict[str, str] = {
    "GATE": "PRIMARY KEY",
    "IS_GATED": "PRIMARY KEY",
    "BEGUN": "runs_begun",
    "AWAKE": "runs_begun",
    "SHARE_BEGUN": "runs_begun",
    "SHARE_AWAKE": "runs_begun",
    "HELD_IN_QUEUE": "runs_held",
    "IN_LINE": "shares_by_time",
    "SHARE_TIME": "PRIMARY KEY",
    "LEAVE_LINE": "PRIMARY KEY",
    "MOVE_SHARE": "runs_at_gate",
    "FORGET_SHARES": "shares_away",
    "HAS_MORE": "runs_at_gate",
    "MOVE_QUEUE": "PRIMARY KEY",
    "IS_AT_GATE": "runs_at_gate",
    "FIRST_AT_GATE": "runs_at_gate",
    "NEXT_VERSION_AT_GATE": "runs_at_gate",
    "NEXT_WORKFLOW_AT_GATE": "runs_at_gate",
    "AT_GATE": "runs_at_gate",
}

FILL = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, inbox_last, inbox_read, claims, instance,
    available_at, ready, queue, priority, worker, bounces, note, key, input_hash, parent, parent_key, root, code, codec,
    created_at, updated_at, doing, gated, share)
SELECT 'run-' || n, 0, 2, 'pending', 'order', '', 0, 0, 0, '', ?2 - n, 2, 'mail', 0, '', 0, '', '', '', '', '', '', '',
    '', ?2, ?2, x'', 1, 'share-' || (n % ?3)
FROM count
"""


AWAY = """
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < ?1)
INSERT INTO shares (queue, share, time, is_away) SELECT 'mail', 'away-' || n, ?2, 1 FROM count
"""
AWAY_SHARES = "SELECT count(*) FROM shares WHERE is_away = 1"


@pytest.mark.parametrize("name", HOT)
async def test_the_gate_is_asked_by_index(name: str, store: SqliteStore) -> None:
    """Contract: no scan and no sort, so the cost does not grow with what waits."""
    steps = plan(store, getattr(queue_statements, name))
    assert any(HOT[name] in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


async def claim_steps(path: Path, clock: VirtualClock, runs: int, shares: int, gate: Gate, away: int = 0) -> int:
    store = await open_sqlite(path.with_name(f"{runs}-{shares}-{gate.at_once}-{away}.db"), clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    assert await store.change_queue(QueueChange(name="mail", revision=0, body=b"", gate=gate))
    await store._writer.run(partial(fill_runs, values=(runs, micros(clock.now()), shares)), is_large=True)
    if away:
        await store._writer.run(lambda transaction: transaction.run(AWAY, (away, 10**9)))
    steps = Steps()
    await store._writer.run(steps.attach)
    before = steps.count
    taken = await store._writer.run(ClaimRuns(request(worker), {}))
    assert len(taken.runs) == min(10, gate.at_once or 10)
    await store.close()
    return steps.count - before


def fill_runs(transaction: Transaction, values: tuple[int, int, int]) -> None:
    transaction.run(FILL, values)


@pytest.mark.parametrize("gate", [Gate(at_once=5), Gate(share_at_once=1), Gate(interval=1, burst=100)], ids=str)
async def test_a_claim_costs_the_same_among_any_number_of_shares(path: Path, clock: VirtualClock, gate: Gate) -> None:
    """Contract: ten shares or ten thousand, a hundred runs or twenty thousand: the same work."""
    few = await claim_steps(path, clock, 100, 20, gate)
    assert await claim_steps(path, clock, 20_000, 10_000, gate) < 1.3 * few
    assert await claim_steps(path, clock, 20_000, 20, gate) < 1.3 * few


async def test_a_claim_costs_the_same_whatever_number_of_shares_is_away(path: Path, clock: VirtualClock) -> None:
    """Contract: ten thousand tenants that have nothing waiting are remembered, and not read."""
    few = await claim_steps(path, clock, 100, 20, Gate(at_once=5))
    assert await claim_steps(path, clock, 100, 20, Gate(at_once=5), away=10_000) < 1.05 * few


async def test_a_share_leaves_the_line_with_its_last_run(store: SqliteStore, clock: VirtualClock) -> None:
    """Contract: so no claim meets ten thousand that have nothing waiting."""
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    for number in range(20):
        await world.make(f"r{number}", queue="mail", share=f"s{number % 15}")
    await world.claim(worker, limit=16)
    assert await asked(store, "SELECT count(*) FROM shares WHERE is_away = 0") == 4
    assert await asked(store, AWAY_SHARES) == 11


async def test_what_no_longer_matters_is_forgotten_some_at_a_time(store: SqliteStore, clock: VirtualClock) -> None:
    """Contract: each run that begins removes two shares at most that would come back where any new one does."""
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    await world.make("first", queue="mail", share="a")
    await store._writer.run(lambda transaction: transaction.run(AWAY, (10, 1)))
    assert len((await world.claim(worker)).runs) == 1
    assert await asked(store, AWAY_SHARES) == 9  # two of ten went, and the one of the run came
    for number in range(5):
        await world.make(f"more-{number}", queue="mail", share="a")
    assert len((await world.claim(worker)).runs) == 5
    assert await asked(store, AWAY_SHARES) == 1


async def asked(store: SqliteStore, question: str) -> int:
    """The number that the database answers."""
    (count,) = await store._writer.run(lambda transaction: transaction.row(question, ()))
    return int(count)
