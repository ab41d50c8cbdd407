"""Hooks of an app: around every body, where it runs, and never in its way."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast import (
    App,
    Current,
    Fact,
    Hook,
    Retry,
    Run,
    RunFailed,
    Signal,
    current,
    facts,
    step,
    sync,
    workflow,
)
from holdfast.errors import DefinitionError
from holdfast.testing import Sim
from tests.support.world import World, open_world

GO = Signal[int]("go")


class Spans(Hook):
    """Writes down what it is around of."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.threads: list[str] = []

    @contextmanager
    def step(self, at: Current) -> Generator[None]:
        self.seen.append(f"enter {at.key} {at.attempt}")
        self.threads.append(threading.current_thread().name)
        assert current().key == at.key
        try:
            yield
        except BaseException as error:
            self.seen.append(f"{type(error).__name__} in {at.key}")
            raise
        finally:
            self.seen.append(f"leave {at.key}")


class Ear(Hook):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Fact] = []

    def on(self, fact: Fact) -> None:
        self.heard.append(fact)

    def of(self, run: str) -> list[str]:
        return [type(x).__name__ for x in self.heard if getattr(x, "run", None) == run]


@pytest.fixture
async def file_world(tmp_path: Path) -> AsyncIterator[World]:
    """A SQLite store on real time."""
    async with open_world("sqlite", tmp_path, virtual=False) as made:
        yield made


@step
async def add(number: int) -> int:
    return number + 1


@step
def add_in_thread(number: int) -> int:
    return number + 1


@step(executor="process")
def add_elsewhere(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return number + 1


@step(tx=True)
async def add_within(number: int) -> int:
    return number + 1


@step(tx=True)
def add_within_thread(number: int) -> int:
    return number + 1


@workflow
async def sums() -> int:
    number = await asyncio.to_thread(add_in_thread, await add(0))
    return await asyncio.to_thread(add_within_thread, await add_within(number))


async def test_a_hook_is_around_every_body_where_it_runs(file_world: World) -> None:
    """Promise: async bodies on the event loop, sync ones in their thread, transactional ones too; each once."""
    spans = Spans()
    async with file_world.serving(sums, hooks=[spans]) as app:
        run: Run[int] = await app.start(sums())
        assert await run.result("60s") == 4
    keys = ["add", "add_in_thread", "add_within", "add_within_thread"]
    assert spans.seen == [text for key in keys for text in (f"enter {key} 1", f"leave {key}")]
    is_elsewhere = [name.startswith("holdfast-step") for name in spans.threads]
    assert is_elsewhere == [False, True, False, True]


@workflow
async def counts_elsewhere(number: int) -> int:
    return await asyncio.to_thread(add_elsewhere.options(retry=Retry.none), number)


async def test_a_hook_is_around_the_wait_for_a_process(file_world: World) -> None:
    """Promise: of `executor="process"` the hook sees the wait, and the error as `StepFailed`."""
    spans = Spans()
    async with file_world.serving(counts_elsewhere, hooks=[spans]) as app:
        assert await (await app.start(counts_elsewhere(1))).result("30s") == 2
        with pytest.raises(RunFailed, match="negative"):
            await (await app.start(counts_elsewhere(-1))).result("30s")
    assert spans.seen == [
        *("enter add_elsewhere 1", "leave add_elsewhere"),
        *("enter add_elsewhere 1", "StepFailed in add_elsewhere", "leave add_elsewhere"),
    ]


@workflow
async def twice() -> int:
    first = await add(1)
    return first + await add(await GO.wait())


async def test_no_hook_on_replay(file_world: World) -> None:
    """Promise: a run that is replayed enters no hook again for what has completed."""
    spans = Spans()
    async with file_world.serving(twice, hooks=[spans]) as app:
        await app.start(twice(), id="r")
        await file_world.until(lambda: spans.seen == ["enter add 1", "leave add"])
    async with file_world.serving(twice, hooks=[spans]) as app:
        run = await app.get("r", twice)
        await run.signal(GO, 5)
        assert await run.result("60s") == 8
    assert spans.seen == ["enter add 1", "leave add", "enter add:1 1", "leave add:1"]


class Swallows(Hook):
    def step(self, at: Current) -> AbstractContextManager[object]:
        return Swallowing()


class Swallowing(AbstractContextManager[object]):
    def __exit__(self, *_: object) -> Literal[True]:
        return True


def test_a_hook_swallows_no_error() -> None:
    """Promise: a true `__exit__` leaves the step failed; the hook outside of it sees the error too."""
    spans = Spans()

    @step(retry=Retry.none)
    def breaks() -> None:
        raise ValueError("odd")

    @workflow
    def work() -> None:
        breaks()

    with Sim(App(workflows=[work], hooks=[spans, Swallows()])) as sim, pytest.raises(RunFailed, match="odd"):
        sim.start(work.call()).result()
    assert spans.seen == ["enter breaks 1", "ValueError in breaks", "leave breaks"]


class Breaks(Hook):
    """Raises where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error
        self.calls = 0

    def step(self, at: Current) -> AbstractContextManager[object]:
        self.calls += 1
        if self.where == "step":
            raise self.error
        return self._span()

    @contextmanager
    def _span(self) -> Generator[None]:
        if self.where == "enter":
            raise self.error
        yield
        if self.where == "exit":
            raise self.error

    def on(self, fact: Fact) -> None:
        if self.where == "on":
            raise self.error


@pytest.mark.parametrize("where", ["step", "enter", "exit", "on"])
@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_a_hook_that_raises_hurts_no_run(where: str, error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the run and the other hooks do not notice; the log says it once."""
    if where == "on" and not isinstance(error, Exception):
        return  # a listener is called outside of any body: what is no Exception is meant for the process
    broken, spans = Breaks(where, error), Spans()

    @workflow
    async def work() -> int:
        return await add(await asyncio.to_thread(add_in_thread, await add(0)))

    with Sim(App(workflows=[work], hooks=[broken, spans])) as sim:
        assert sim.start(work()).result() == 3
    assert len(spans.seen) == 6
    told = [x.getMessage() for x in caplog.records if vars(x).get("fact") == "hook failed"]
    if where == "on":
        assert len(told) == len(set(told)) > 3
    else:
        assert told == ["hook Breaks: step() raised; runs are not affected, and this is logged once"]


def test_a_hook_sees_a_body_that_is_cancelled() -> None:
    """Promise: an attempt whose time is up leaves its hook with `CancelledError`, and is tried again."""
    spans = Spans()
    tries: list[int] = []

    @step(timeout="1s")
    async def slow() -> str:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.sleep(3600)
        return "done"

    @workflow
    async def work() -> str:
        return await slow()

    with Sim(App(workflows=[work], hooks=[spans])) as sim:
        run = sim.start(work())
        assert run.result("1h") == "done"
    assert spans.seen == ["enter slow 1", "CancelledError in slow", "leave slow", "enter slow 2", "leave slow"]


def test_a_hook_hears_the_life_of_a_run() -> None:
    """Promise: the facts of a run, in their order, with times of its steps."""
    ear = Ear()
    tries: list[int] = []

    @step(retry=Retry(2, first="10s"))
    async def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("odd")
        await asyncio.sleep(2)
        return 1

    @workflow
    async def work() -> int:
        await GO.wait()
        return await flaky()

    with Sim(App(workflows=[work], hooks=[ear])) as sim:
        run = sim.start(work(), id="r")
        run.signal(GO, 1)
        assert run.result("1h") == 1
    assert ear.of("r") == [
        *("RunClaimed", "RunBegan", "RunParked", "RunClaimed", "StepStarted", "AttemptFailed"),
        *("RunParked", "RunClaimed", "StepStarted", "StepCompleted", "RunEnded"),
    ]
    [failed] = [x for x in ear.heard if isinstance(x, facts.AttemptFailed)]
    assert (failed.step, failed.type, str(failed.error)) == ("flaky", "ValueError", "odd")
    assert failed.retry_at is not None
    assert failed.place.startswith(f"{__file__}:")
    [completed] = [x for x in ear.heard if isinstance(x, facts.StepCompleted)]
    assert completed.seconds is not None
    assert timedelta(seconds=completed.seconds) >= timedelta(seconds=2)
    assert any(isinstance(x, facts.TurnsCommitted) and x.turns == 1 and x.size > 0 for x in ear.heard)


def test_hooks_under_the_sync_app(tmp_path: Any) -> None:
    """Promise: the sync app takes the same hooks; the client's start is told too."""
    spans, ear = Spans(), Ear()

    @workflow
    def work() -> int:
        return add_in_thread(1)

    app = sync.App(f"sqlite:///{tmp_path}/store.db", workflows=[work], hooks=[spans, ear])
    with app, app.worker():
        assert app.start(work.call(), id="r").result("60s") == 2
    assert spans.seen == ["enter add_in_thread 1", "leave add_in_thread"]
    told = [type(x) for x in ear.heard]
    assert {facts.RunStarted, facts.WorkerStarted, facts.WorkerStopped, facts.RunEnded} <= set(told)
    [started] = [x for x in ear.heard if isinstance(x, facts.WorkerStarted)]
    assert started.store == f"sqlite:///{tmp_path}/store.db", "a worker names its store"


class Nothing(Hook):
    def steps(self, at: Current) -> None: ...


class Awaits(Hook):
    async def on(self, fact: Fact) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (Nothing(), "hook Nothing overrides none of step\\(\\), on\\(\\) and idle\\(\\)"),
        (Spans, "write Spans\\(\\), with parentheses"),
        (print, "takes instances of subclasses of holdfast.Hook"),
        (Awaits(), "on\\(\\) is called without await"),
    ],
    ids=["nothing", "class", "function", "async"],
)
def test_a_hook_that_would_never_be_called_is_refused(hook: Any, says: str) -> None:
    """Promise: said when the app is made."""
    with pytest.raises(DefinitionError, match=says):
        App(hooks=[hook])


async def test_a_run_that_fails_or_pauses_is_heard_by_default(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: with Python's default level: step, error, file and line, and the command that shows more."""
    caplog.set_level(logging.WARNING, "holdfast")

    @step(retry=Retry.none)
    async def pay() -> None:
        raise ValueError("declined")

    entered, leave = asyncio.Event(), asyncio.Event()

    @step
    async def wait_for_gate() -> None:
        entered.set()
        await leave.wait()

    @workflow
    async def fails() -> None:
        await pay()

    @workflow
    async def pauses() -> None:
        await wait_for_gate()
        await wait_for_gate()

    async with world.serving(fails, pauses) as app:
        with pytest.raises(RunFailed):
            await (await app.start(fails(), id="f")).result("60s")
        run: Run[None] = await app.start(pauses(), id="p")
        await world.until_set(entered)
        await run.pause("look first")
        leave.set()
        await world.until(lambda: "run p: paused" in caplog.text)
    [said] = [x.getMessage() for x in caplog.records if x.getMessage().startswith("run f: failed")]
    assert "step pay failed after 1 attempt: ValueError: declined" in said
    assert f"({__file__}:" in said
    assert said.endswith("More: holdfast show f")
    assert "look first. More: holdfast show p" in caplog.text


class Rests(Hook):
    """Knows the threads that it was told of."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.told = threading.Event()

    def idle(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.told.set()
        raise LookupError("nothing to close")


@workflow
async def in_a_thread() -> int:
    return await asyncio.to_thread(add_in_thread, 1)


async def test_a_hook_is_told_of_an_idle_thread_and_may_fail(file_world: World) -> None:
    """Promise: in the thread of the body, after it; its error is told once and hurts nothing."""
    rests, ear = Rests(), Ear()
    async with file_world.serving(in_a_thread, hooks=[rests, ear]) as app:
        for _ in range(2):
            assert await (await app.start(in_a_thread())).result("60s") == 2
            assert await asyncio.to_thread(rests.told.wait, 10)
            rests.told.clear()
    assert len(rests.threads) == 2
    assert all(name.startswith("holdfast-step") for name in rests.threads)
    failed = [fact for fact in ear.heard if isinstance(fact, facts.HookFailed)]
    assert [(fact.hook, fact.place, str(fact.error)) for fact in failed] == [("Rests", "idle()", "nothing to close")]
