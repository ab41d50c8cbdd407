"""What a step and a run cost, counted: the guard of the hot path. Times depend on the machine; these do not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks import calls
from benchmarks.counting import Connections, counted_hops, counted_questions, counted_syncs
from benchmarks.program import app_at, many, one
from benchmarks.throughput import finished
from holdfast import App, Call
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.config import Configuration, RecoverySettings
from holdfast.core.limit import Rule
from holdfast.ports.leases import ClaimRequest, WorkerRow
from holdfast.testing.conformance.limits import ask, demand
from holdfast.testing.conformance.world import World
from tests.support.postgres import clean_url

MOST_CALLS_OF_A_RUN = 343
MOST_CALLS_OF_A_STEP = 110


class Costs:
    """What was done between the beginning and the end of a block."""

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        self.syncs = 0
        self.hops: Counter[str] = Counter()

    def named(self, *words: str) -> int:
        """Statements that begin with one of these words."""
        return sum(count for text, count in self.statements.items() if text.startswith(words))


@asynccontextmanager
async def counted(folder: Path) -> AsyncGenerator[tuple[App, Callable[[list[Call[Any]]], Any]]]:
    """An app with a worker that looks and beats so seldom that only the work itself is counted: not even at its start,
    for it does not look after the runs of others."""
    config = Configuration(recovery=RecoverySettings(enabled=False))
    with counted_syncs() as syncs, Connections() as connections, counted_hops() as hops:
        async with app_at(f"sqlite:///{folder / 'counted.db'}", config) as app, app.worker(poll="100s", ttl="1h"):
            await finished(app, [one(0), many(2)])

            async def run(calls: list[Call[Any]]) -> Costs:
                costs = Costs()
                syncs.clear()
                hops.clear()
                with connections.counted() as statements:
                    await finished(app, calls)
                costs.statements, costs.syncs, costs.hops = statements, syncs["syncs"], Counter(hops)
                return costs

            yield app, run


RULES = re.compile(r"\b(limits|rates|places|waiters)\b")
"""The tables of limits."""


async def made_with_limits(url: str) -> None:
    """Makes a store in which one step has the only place of a limit, and another waits for it."""
    async with app_at(url) as app:
        store = (await app.client()).store
        world = World(store, VirtualClock(store.clock.now()))
        holders = [await world.held_run(f"limited-{number}") for number in range(2)]
        assert [await ask(world, holder, demand("api", Rule(at_once=1))) for holder in holders] == [True, False]


@pytest.mark.parametrize("has_limits", [False, True])
async def test_a_run_of_one_step_takes_two_commits(tmp_path: Path, has_limits: bool) -> None:
    """Promise: made, claimed and begun in one transaction; the outcome of its step and its end in another. Limits of
    other steps cost it nothing."""
    if has_limits:
        await made_with_limits(f"sqlite:///{tmp_path / 'counted.db'}")
    async with counted(tmp_path) as (_, run):
        costs: Costs = await run([one(1)])
    words = Counter(" ".join(text.split()[:3]) for text in costs.statements.elements() if "data_version" not in text)
    assert words == {
        "BEGIN IMMEDIATE": 2,
        "INSERT INTO runs": 1,
        "INSERT INTO events": 2,  # the first of them of two rows
        "UPDATE runs SET": 1,
        "COMMIT": 2,
    }, costs.statements
    assert costs.syncs == 2


@pytest.mark.parametrize("has_limits", [False, True])
async def test_a_run_of_one_step_is_two_questions_to_postgresql(has_limits: bool) -> None:
    """Promise: it is made, claimed and begun by one, and ended by another. Limits of other steps cost it nothing."""
    url = clean_url()
    if has_limits:
        await made_with_limits(url)
    config = Configuration(recovery=RecoverySettings(enabled=False))
    async with app_at(url, config) as app, app.worker(poll="100s", ttl="1h"):
        await finished(app, [one(0), many(2)])
        questions: list[int] = []
        for _ in range(5):  # beats may fall into some
            with counted_questions() as asked:
                await finished(app, [one(1)])
            assert not [text for text in asked if RULES.search(text)], asked
            questions.append(sum(count for text, count in asked.items() if "pg_notify" not in text))
    assert min(questions) == 2


async def test_a_unique_value_costs_its_own_start_alone(tmp_path: Path) -> None:
    """Promise: a look and a row for a start that names one; not one statement for a start that does not."""
    words: dict[str, Counter[str]] = {}
    with Connections() as connections:
        async with app_at(f"sqlite:///{tmp_path / 'unique.db'}") as app:
            for name, unique in (("none", None), ("unique", "u")):
                with connections.counted() as statements:
                    await app.start(one(1), unique=unique)
                texts = (text for text in statements.elements() if "data_version" not in text)
                words[name] = Counter(" ".join(text.split()[:3]) for text in texts)
    plain = {"BEGIN IMMEDIATE": 1, "INSERT INTO runs": 1, "INSERT INTO events": 1, "COMMIT": 1}
    assert words["none"] == plain
    assert words["unique"] == {**plain, "SELECT * FROM": 1, "INSERT INTO uniques": 1}


async def test_rules_of_a_queue_cost_the_runs_of_that_queue_alone(tmp_path: Path) -> None:
    """Promise: beside a queue with rules, a run of another queue is made, claimed and ended by the same statements."""
    words: dict[str, Counter[str]] = {}
    with Connections() as connections:
        async with app_at(f"sqlite:///{tmp_path / 'queues.db'}") as app:
            for name in ("without rules", "beside rules"):
                with connections.counted() as statements:
                    await app.start(one(1))
                    store = (await app.client()).store
                    worker = WorkerRow(
                        instance=name,
                        worker="w",
                        queues=("default",),
                        definitions=((one.name, one.spec.version),),
                        pid=0,
                        host="",
                        started_at=store.clock.now(),
                    )
                    await store.register(worker, timedelta(hours=1), takes_over="none")
                    claims = await store.claim(ClaimRequest(worker=worker, limit=5, max_claims=5))
                    assert len(claims.runs) == 1
                words[name] = Counter(text for text in statements.elements() if "data_version" not in text)
                await app.pause_queue("mail")
    assert words["without rules"] == words["beside rules"]
    assert not [text for text in words["beside rules"] if "shares" in text or "runs_begun" in text]


@pytest.mark.parametrize("steps", [20, 40])
async def test_a_step_in_sequence_takes_one_commit_of_two_statements(tmp_path: Path, steps: int) -> None:
    """Promise: one fenced update, one row, one sync; no other statement, and no other thread."""
    async with counted(tmp_path) as (_, run):
        costs: Costs = await run([many(steps)])
    assert costs.statements["COMMIT"] == steps + 1, costs.statements
    assert costs.syncs == steps + 1
    assert costs.named("UPDATE runs") == steps
    assert costs.named("INSERT INTO events") == steps + 1
    assert costs.hops["to a pool"] == 0
    assert costs.hops["wake-ups"] == 0
    assert costs.named("SELECT") == 0, costs.statements


async def test_concurrent_runs_share_their_commits(tmp_path: Path) -> None:
    """Promise: turns that are ready together go to the disk together."""
    runs, steps = 50, 10
    async with counted(tmp_path) as (_, run):
        costs: Costs = await run([many(steps) for _ in range(runs)])
    assert costs.statements["COMMIT"] <= runs * steps / 5, costs.statements
    assert costs.named("INSERT INTO events") == runs * (steps + 1)
    assert costs.named("UPDATE runs") == runs * steps
    assert costs.named("SELECT") == 0, costs.statements


async def test_many_runs_started_together_share_their_commits(tmp_path: Path) -> None:
    """Promise: starting and ending many runs takes few transactions."""
    async with counted(tmp_path) as (_, run):
        costs: Costs = await run([one(n) for n in range(100)])
    assert costs.statements["COMMIT"] <= 20, costs.statements
    assert costs.hops["wake-ups"] <= 20


async def test_a_run_and_a_step_enter_few_functions(tmp_path: Path) -> None:
    """Promise: a start, one step and its result enter about 328 of Holdfast's functions, and a further step about 105.
    The looks of an idle worker may fall in between."""
    run, per_step = await calls.counts(f"sqlite:///{tmp_path / 'calls.db'}")
    assert run.total <= MOST_CALLS_OF_A_RUN, "\n".join(calls.said(run, per_step, top=40))
    assert per_step <= MOST_CALLS_OF_A_STEP, "\n".join(calls.said(run, per_step, top=40))
