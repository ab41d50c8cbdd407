"""The determinism promise: whatever the order of completions, a journal replays to the same commands.

Each construct of asyncio gets random programs of real steps. Each is run once with outcomes, timers and messages in
random order; then a fresh process, with another PYTHONHASHSEED and a heap of another shape, replays every prefix of
every journal and compares what the code asks for next with what was recorded.

Run as a script, this file is that fresh process: journals come in on stdin, what differs goes out on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import sync
from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.sagas import saga
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import each, now, rng, sleep
from holdfast.authoring.script.workflows import AnyWorkflow, workflow
from holdfast.core import events as e
from holdfast.core.turn import Turn
from holdfast.errors import StepFailed
from tests.support.examples import count
from tests.support.pure import Happening, PureRun, check_replays

SCHEDULES = count(300, few=40)
ROOT = Path(__file__).parents[4]

nudge = Signal[str]("nudge")


@step
async def work(name: str, fails: bool = False) -> str:
    if fails:
        raise ValueError(name)
    return name


@work.undo
async def unwork(done: str, name: str, fails: bool = False) -> None: ...


@step
def load(page: int) -> int:
    return page * 2


class Piece:
    """A branch of a random program. What it does follows from its seed, never from when things happen."""

    def __init__(self, seed: int, trouble: float = 0.15) -> None:
        self.choice = random.Random(seed)
        self.trouble = trouble

    async def __call__(self, name: str) -> str:
        choice = random.Random(f"{name}:{self.choice.random()}")
        said = [name]
        try:
            for _ in range(choice.randint(0, 3)):
                if choice.random() < 0.25:
                    await asyncio.sleep(choice.choice([0, 0, 0.5, 5]))
                else:
                    said.append(await work(name, choice.random() < self.trouble))
        except asyncio.CancelledError:
            if choice.random() < 0.5:
                await work(f"clean {name}")
            raise
        except StepFailed:
            if choice.random() < 0.5:
                raise
            said.append("failed")
        return ",".join(said)

    def names(self) -> list[str]:
        return [f"b{number}" for number in range(self.choice.randint(2, 7))]

    def tasks(self) -> list[asyncio.Task[str]]:
        return [asyncio.create_task(self(name)) for name in self.names()]


def said(task: asyncio.Future[str]) -> str:
    if task.cancelled():
        return "cancelled"
    return str(task.exception() or task.result())


@workflow
async def gathers(seed: int) -> list[str]:
    piece = Piece(seed)
    found = await asyncio.gather(*(piece(name) for name in piece.names()), return_exceptions=bool(seed % 2))
    return [str(x) for x in found]


@workflow
async def task_groups(seed: int) -> list[str]:
    piece = Piece(seed)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(piece(name)) for name in piece.names()]
    except ExceptionGroup as failed:
        return [str(x) for x in failed.exceptions]
    return [task.result() for task in tasks]


@workflow
async def waits(seed: int) -> list[str]:
    pending = set(Piece(seed).tasks())
    order: list[str] = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            order.append(said(task))
            await work(f"after {said(task)}"[:40])
        for task in list(pending)[: len(order) % 2]:
            task.cancel()
    return order


@workflow
async def completes(seed: int) -> list[str]:
    piece = Piece(seed)
    awaitables: Any = piece.tasks() if seed % 2 else [work(name) for name in piece.names()]
    order: list[str] = []
    for ready in asyncio.as_completed(awaitables):
        try:
            order.append(await ready)
        except StepFailed as failed:
            order.append(failed.message)
        await work(f"after {len(order)}")
    return order


@workflow
async def timeouts(seed: int) -> list[str]:
    piece = Piece(seed)
    order: list[str] = []

    async def limited(name: str, limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                order.append(await piece(name))
        except TimeoutError:
            order.append(f"{name} late at {now().isoformat()}")
            await work(f"late {name}")

    limits = [(name, piece.choice.choice([0.02, 0.3, 2, 20])) for name in piece.names()]
    await asyncio.gather(*(limited(name, limit) for name, limit in limits), return_exceptions=True)
    try:
        order.append(await asyncio.wait_for(piece("last"), piece.choice.choice([0.01, 3])))
    except (TimeoutError, StepFailed) as error:
        order.append(type(error).__name__)
    return order


@workflow
async def queues(seed: int) -> list[str]:
    piece = Piece(seed, trouble=0)
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=2)
    order: list[str] = []

    async def produce(name: str) -> None:
        await queue.put(await piece(name))

    async def consume() -> None:
        while True:
            order.append(await queue.get())
            await work(f"got {len(order)}")
            queue.task_done()

    consumers = [asyncio.create_task(consume()) for _ in range(2)]
    await asyncio.gather(*(produce(name) for name in piece.names()))
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    return order


@workflow
async def events_and_signals(seed: int) -> list[str]:
    piece = Piece(seed, trouble=0)
    opened = asyncio.Event()
    order: list[str] = []

    async def waiter(name: str) -> None:
        await opened.wait()
        order.append(await work(name))

    async def listener() -> None:
        order.append(await nudge.wait(timeout="3s", default="nobody"))
        opened.set()

    async with asyncio.TaskGroup() as group:
        for name in piece.names():
            group.create_task(waiter(name))
        group.create_task(listener())
        group.create_task(listener())
    return order


@workflow
async def semaphores(seed: int) -> list[str]:
    piece = Piece(seed, trouble=0)
    free = asyncio.Semaphore(2)
    lock = asyncio.Lock()
    order: list[str] = []

    async def guarded(name: str) -> None:
        async with free:
            done = await piece(name)
        async with lock:
            order.append(await work(done[:30]))

    await asyncio.gather(*(guarded(name) for name in piece.names()))
    return order


@workflow
async def cancels(seed: int) -> list[str]:
    piece = Piece(seed)
    try:
        async with saga():
            async with asyncio.TaskGroup() as group:
                for name in piece.names():
                    group.create_task(piece(name))
            await sleep("1h")
    finally:
        await work("clean up")
        await asyncio.gather(work("one"), work("two"))
    return []


@workflow
async def eaches(seed: int) -> list[str]:
    piece = Piece(seed)
    async with saga():
        return await each(piece, piece.names() * 2, limit=3)


@workflow
async def rngs(seed: int) -> list[str]:
    async def branch(name: str) -> str:
        await asyncio.sleep(rng().random())
        return await work(f"{name} {rng().random()}")

    return await asyncio.gather(*(branch(name) for name in Piece(seed).names()))


@workflow
def sync_gathers(seed: int) -> list[int]:
    first, second = sync.gather(load.call(seed), load.call(seed + 1))
    rest = sync.each(load, range(first % 5 + 2), limit=2)
    sync.sleep(rest[-1])
    return [first, second, *rest]


CONSTRUCTS: dict[str, AnyWorkflow[..., Any]] = {
    "gather": gathers,
    "TaskGroup": task_groups,
    "wait": waits,
    "as_completed": completes,
    "timeout": timeouts,
    "Queue": queues,
    "Event": events_and_signals,
    "Semaphore": semaphores,
    "cancellation": cancels,
    "each": eaches,
    "rng": rngs,
    "sync gather": sync_gathers,
}


def happenings(construct: str) -> list[Happening]:
    if construct == "cancellation":
        return [lambda run: e.CancelRequested(reason="enough") if run.fold.ordinal > 2 else None]
    if construct == "Event":
        return [lambda run: run.signal(nudge, "one"), lambda run: run.signal(nudge, "two")]
    return []


def live(construct: str, seed: int) -> PureRun:
    flow: Any = CONSTRUCTS[construct]
    call = flow(seed) if flow.spec.is_async else flow.call(seed)
    return PureRun(call, seed=f"{construct}:{seed}").finish_by_chance(happenings(construct))


def in_a_fresh_process(construct: str, journals: list[tuple[int, list[Turn]]], hash_seed: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, __file__, construct, str(hash_seed)],
        input=msgspec.json.encode(journals),
        env=environment,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.examples
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_random_schedules_replay_exactly_in_another_process(construct: str, rng: random.Random) -> None:
    """Contract: after every prefix of its journal a program asks for exactly what it asked for when it was live."""
    seeds = [rng.randrange(2**31) for _ in range(SCHEDULES)]
    journals = [(seed, live(construct, seed).turns) for seed in seeds]
    assert len({msgspec.json.encode(turns[1:]) for _, turns in journals}) > SCHEDULES * 0.5  # they do differ
    answer = in_a_fresh_process(construct, journals, rng.randrange(1, 2**32))
    assert answer["different"] == [], f"live({construct!r}, seed): seed and difference {answer['different']}"
    assert answer["compared"] == sum(len(turns) - 1 for _, turns in journals)


def main(construct: str, heap_seed: int) -> None:
    """The fresh process: a heap of another shape, then every prefix of every journal."""
    chance = random.Random(heap_seed)
    ballast = [bytearray(chance.randrange(1, 4000)) for _ in range(20_000)]
    chance.shuffle(ballast)
    del ballast[::2]
    journals = msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[int, list[Turn]]])
    replayer: Callable[..., int] = check_replays
    compared, different = 0, []
    for seed, turns in journals:
        try:
            compared += replayer(CONSTRUCTS[construct].spec, turns)
        except Exception as error:  # noqa: BLE001 told to the test, with its seed
            different.append([seed, f"{type(error).__name__}: {error}"])
    sys.stdout.write(json.dumps({"compared": compared, "different": different}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
