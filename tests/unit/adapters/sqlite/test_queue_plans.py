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


@pytest.mark.parametrize("name", HOT)
async def test_the_gate_is_asked_by_index(name: str, store: SqliteStore) -> None:
    """Contract: no scan and no sort, so the cost does not grow with what waits."""
    steps = plan(store, getattr(queue_statements, name))
    assert any(HOT[name] in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


async def claim_steps(path: Path, clock: VirtualClock, runs: int, shares: int, gate: Gate) -> int:
    store = await open_sqlite(path.with_name(f"{runs}-{shares}-{gate.at_once}.db"), clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    assert await store.change_queue(QueueChange(name="mail", revision=0, body=b"", gate=gate))
    await store._writer.run(partial(fill_runs, values=(runs, micros(clock.now()), shares)), is_large=True)
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
