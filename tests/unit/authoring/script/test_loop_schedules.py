"""Random concurrent programs replay exactly: another process, another heap, another PYTHONHASHSEED, the same trace.

Each construct of asyncio gets its random programs. One is run with completions in random order and the order is noted;
then a fresh process replays all of them in one batch. The trace holds everything the author could see: what was asked
for, what came back, who was cancelled, in which order sets were iterated, what tasks are called.

Run as a script, this file is that fresh process: orders come in on stdin, traces go out on stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.examples import count
from tests.unit.authoring.script.loop_host import StepCall, World

SCHEDULES = count(300, few=40)
Program = Callable[["Author"], Coroutine[Any, Any, Any]]
Order = list[list[Any]]


class Author:
    """The world as a random program sees it. Its choices come from its seed, never from when things happen."""

    def __init__(self, world: World, choice: random.Random) -> None:
        self.world = world
        self.choice = choice
        self.steps = 0

    def note(self, *what: Any) -> None:
        self.world.trace.append(list(what))

    def step(self, name: str) -> StepCall:
        self.steps += 1
        self.note("ask", full := f"{name}.{self.steps}")
        return self.world.step(full)

    def several(self) -> range:
        return range(self.choice.randint(2, 12))

    async def work(self, name: str) -> str:
        """A few steps and sleeps; says what happens to it, and may clean up when cancelled."""
        choice = random.Random(f"{name}:{self.choice.random()}")
        try:
            for _ in range(choice.randint(0, 3)):
                if choice.random() < 0.2:
                    await asyncio.sleep(choice.choice([0, 0, 1, 5, 30]))
                else:
                    self.note("got", name, await self.step(name))
        except asyncio.CancelledError:
            self.note("cancelled", name)
            if choice.random() < 0.3:
                await self.step(f"{name}-clean")
            raise
        except ValueError as error:
            self.note("failed", name, str(error))
            if choice.random() < 0.5:
                raise
        return name

    def task(self, name: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.work(name))

    def tasks(self) -> list[asyncio.Task[str]]:
        return [self.task(f"t{number}") for number in self.several()]

    def ended(self, task: asyncio.Future[Any]) -> str:
        name = task.get_name() if isinstance(task, asyncio.Task) else "future"
        if task.cancelled():
            return f"{name} cancelled"
        return f"{name} {task.exception()!r}" if task.exception() else f"{name} {task.result()}"


async def gather(author: Author) -> None:
    groups = [
        asyncio.gather(*(author.work(f"{group}{number}") for number in author.several()), return_exceptions=True)
        for group in "ab"
    ]
    done, _ = await asyncio.wait(groups, return_when=asyncio.FIRST_COMPLETED)
    for group in done:
        author.note("gathered", repr(group.result()))
    author.note("first", repr(await asyncio.gather(*author.tasks())))


async def task_group(author: Author) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for number in author.several():
                group.create_task(author.work(f"g{number}"))
            author.note("body", await author.step("body"))
    except* ValueError as errors:
        author.note("group", [str(error) for error in errors.exceptions])


async def wait(author: Author) -> None:
    pending: set[asyncio.Task[str]] = set(author.tasks())
    how = [asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION, asyncio.ALL_COMPLETED]
    while pending:
        timeout = author.choice.choice([None, 0, 2, 20])
        done, pending = await asyncio.wait(pending, timeout=timeout, return_when=author.choice.choice(how))
        author.note("done", [author.ended(task) for task in done], [task.get_name() for task in pending])
        if author.choice.random() < 0.2:
            for task in pending:
                task.cancel()
        if author.choice.random() < 0.3:
            pending = {*pending, author.task(f"more{author.steps}")} if author.steps < 40 else pending


async def as_completed(author: Author) -> None:
    tasks = author.tasks()
    for _ in range(author.choice.randint(0, 2)):
        await author.step("head start")  # so that some are done before they are asked for
    for next_one in asyncio.as_completed(tasks, timeout=author.choice.choice([None, None, 25])):
        try:
            author.note("next", await next_one)
        except (ValueError, TimeoutError) as error:
            author.note("next", repr(error))


async def as_completed_steps(author: Author) -> None:
    calls = [author.step(f"s{number}") for number in author.several()]
    for next_one in asyncio.as_completed(calls):
        try:
            author.note("next", await next_one)
        except ValueError as error:
            author.note("next", repr(error))


async def timeouts(author: Author) -> None:
    async def limited(number: int) -> None:
        try:
            if author.choice.random() < 0.5:
                async with asyncio.timeout(author.choice.choice([1, 2, 30])):
                    await author.work(f"w{number}")
            else:
                await asyncio.wait_for(author.work(f"w{number}"), author.choice.choice([1, 2, 30]))
        except TimeoutError:
            author.note("too late", number, asyncio.get_running_loop().time())

    await asyncio.gather(*(limited(number) for number in author.several()), return_exceptions=True)


async def queue(author: Author) -> None:
    items: asyncio.Queue[str] = asyncio.Queue(maxsize=author.choice.choice([0, 1, 3]))

    async def consume(name: str) -> None:
        while True:
            item = await items.get()
            author.note("took", name, item)
            try:
                await author.work(f"{name}-{item}")
            finally:
                items.task_done()

    consumers = [asyncio.create_task(consume(f"c{number}")) for number in range(author.choice.randint(1, 4))]
    producers = [asyncio.create_task(items.put(f"i{number}")) for number in author.several()]
    _, left = await asyncio.wait({*producers, asyncio.create_task(items.join())}, timeout=60)
    for task in (*consumers, *left):
        task.cancel()
    author.note("ends", [author.ended(task) for task in (await asyncio.wait({*consumers, *producers}))[0]])


async def event(author: Author) -> None:
    ready, condition = asyncio.Event(), asyncio.Condition()

    async def waits(name: str) -> None:
        await ready.wait()
        await author.work(name)
        async with condition:
            await condition.wait()
            author.note("woken", name)

    waiting = {asyncio.create_task(waits(f"e{number}")) for number in author.several()}
    await author.step("ready")
    ready.set()
    while waiting:
        async with condition:
            condition.notify(author.choice.randint(1, 3))
        done, waiting = await asyncio.wait(waiting, timeout=3, return_when=asyncio.FIRST_COMPLETED)
        author.note("through", [author.ended(task) for task in done])


async def semaphore(author: Author) -> None:
    few, lock = asyncio.Semaphore(author.choice.randint(1, 3)), asyncio.Lock()

    async def guarded(name: str) -> None:
        async with few:
            author.note("in", name)
            await author.work(name)
        async with lock:
            await author.work(f"{name}-alone")

    tasks = {asyncio.create_task(guarded(f"s{number}")) for number in author.several()}
    done, _ = await asyncio.wait(tasks)
    author.note("out", [author.ended(task) for task in done])


async def cancellation(author: Author) -> None:
    async def parent(name: str) -> None:
        inner = {author.task(f"{name}-{number}") for number in author.several()}
        try:
            await asyncio.shield(asyncio.gather(*inner, return_exceptions=True))
        finally:
            for task in inner:
                if author.choice.random() < 0.7:
                    task.cancel(name)
            author.note("left", [task.get_name() for task in inner if not task.done()])

    parents = [asyncio.create_task(parent(f"p{number}")) for number in range(3)]
    for _ in range(3):
        await author.step("tick")
        author.choice.choice(parents).cancel()
    done, _ = await asyncio.wait(parents, timeout=40)
    author.note("parents", [author.ended(task) for task in done])


async def mixed(author: Author) -> None:
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        for construct in author.choice.sample(ALONE, 3):
            group.create_task(swallowing(construct(author)))


async def swallowing(program: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(ValueError, TimeoutError):
        await program


ALONE: list[Program] = [
    gather, task_group, wait, as_completed, as_completed_steps, timeouts, queue, event, semaphore, cancellation,
]  # fmt: skip
CONSTRUCTS: dict[str, Program] = {program.__name__: program for program in (*ALONE, mixed)}


def perform(construct: str, seed: str, order: Order | None) -> tuple[Order, list[Any]]:
    """Runs one program: with random completions, or with those of a given order. Gives the order and the trace."""
    world = World()
    author = Author(world, random.Random(f"program {seed}"))
    completions = random.Random(f"order {seed}")
    followed: Order = []
    main = world.run(CONSTRUCTS[construct](author))
    while not main.done() and len(followed) < 200:
        if order is None:
            happening = chosen(world, completions)
        else:
            happening = order[len(followed)] if len(followed) < len(order) else None
        if happening is None:
            break
        followed.append(happening)
        happen(world, happening)
    if main.done():
        author.note("end", author.ended(main))
    author.note("left", [task.get_name() for task in world.loop.unfinished_tasks()])
    author.note("errors", [repr(error) for error in world.loop.callback_errors])
    assert world.unwind()
    return followed, world.trace


def chosen(world: World, choice: random.Random) -> list[Any] | None:
    waiting = [name for name, future in world.pending.items() if not future.done()]
    if world.timers and (not waiting or choice.random() < 0.15):
        return ["timer", min(world.timers, key=lambda timer: (timer.when_at, timer.number)).number]
    if not waiting:
        return None
    return [choice.choice(["value"] * 6 + ["failure"]), choice.choice(waiting)]


def happen(world: World, happening: list[Any]) -> None:
    match happening:
        case ["timer", number]:
            timer = next(timer for timer in world.timers if timer.number == number)
            world.timers.remove(timer)
            world.loop.now = timer.when_at
            world.loop.fire(timer)
            world.go()
        case ["value", name]:
            world.resolve(name, f"value of {name}")
        case ["failure", name]:
            world.pending.pop(name).set_exception(ValueError(name))
            world.go()
        case _:
            raise AssertionError(happening)


def replay_all(junk_seed: int) -> None:
    """The fresh process: replays every order it is given, on a heap stirred before each."""
    junk: list[Any] = []
    stir = random.Random(junk_seed)
    traces: list[Any] = []
    for construct, seed, order in json.load(sys.stdin):
        junk.extend(bytearray(stir.randrange(1, 600)) for _ in range(stir.randrange(60)))
        junk.extend({str(number): [number]} for number in range(stir.randrange(30)))
        stir.shuffle(junk)
        del junk[500:]
        traces.append(perform(construct, seed, order)[1])
    json.dump(traces, sys.stdout)


@pytest.mark.slow
@pytest.mark.examples
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_journal_replays_in_any_process(construct: str, rng: random.Random) -> None:
    """Contract: the same completions in the same order give the same program, whatever the process looks like."""
    base = rng.randrange(2**32)
    seeds = [f"{base}:{number}" for number in range(SCHEDULES)]
    lived = [(seed, *perform(construct, seed, None)) for seed in seeds]
    assert sum(len(order) > 3 for _, order, _ in lived) > SCHEDULES / 3, "the programs are too short to tell"
    given = json.dumps([[construct, seed, order] for seed, order, _ in lived])
    for hash_seed in [str(rng.randrange(2**32)) for _ in range(count(3, few=1))]:
        ended = subprocess.run(
            [sys.executable, __file__, hash_seed],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        for (seed, _, trace), replayed in zip(lived, json.loads(ended.stdout), strict=True):
            assert replayed == json.loads(json.dumps(trace)), f"{construct} diverged: program {seed}"


if __name__ == "__main__":
    replay_all(int(sys.argv[1]))
