"""`holdfast.sync` from the outside: an app, its worker and its runs, blocking, from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast import App as AsyncApp
from holdfast import ResultTimeout, RunFailed, RunFinished, RunNotFound, RunVar, Status
from holdfast.errors import InvalidInput, NotAllowedHere, NotInRun, UnknownWorkflow
from holdfast.sync import App, Signal, Topic, continue_as, each, gather, saga, sleep, start, step, wait, workflow

go = Signal[int]("go")
news = Topic[str]("news")
shown = RunVar[str]("shown")


@step
def add(a: int, b: int = 1) -> int:
    return a + b


@step
async def later(a: int) -> int:
    await asyncio.sleep(0)
    return a


@workflow
def small(number: int) -> int:
    return add(number)


@workflow
def waits() -> int:
    shown.set("waiting")
    return go.wait()


@workflow
def reads() -> str:
    return news.wait(timeout="1h", default="none")


@workflow
def fails() -> None:
    raise ValueError("why")


@workflow
def every_verb(number: int) -> list[int]:
    with saga():
        pair = gather(add.call(1), add.options(key="two").call(2))
        spread = each(add, range(3), limit=2)
        nested = each(small, [10, 20])
        one = add.options(key="pinned", retry=2, timeout="10s")(number)
        other = wait(later(5))
        child = small(40)
        sleep("1ms")
        start(small.call(1), id="beside")
    return [*pair, *spread, *nested, one, other, child]


WORKFLOWS: list[Any] = [small, waits, reads, fails, every_verb]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(f"sqlite:///{tmp_path / 'store.db'}", workflows=WORKFLOWS)
    with made:
        yield made


def test_every_verb_of_a_sync_workflow(app: App) -> None:
    """Promise: gather, each, wait, options, children, sleep and saga work in a `def` workflow."""
    with app.worker(poll="50ms"):
        run = app.start(every_verb.call(6), id="all")
        assert run.result("60s") == [2, 3, 1, 2, 3, 11, 21, 7, 5, 41]
        assert app.get("beside", small).result("60s") == 2
        assert repr(run) == "<Run all>"
        keys = [x.data["key"] for x in run.follow() if x.type == "done"]
    assert {"two", "pinned"} <= set(keys)


def test_a_run_from_the_outside(app: App) -> None:
    """Promise: every verb of a run has its blocking twin, with the same meaning."""
    with app.worker(poll="50ms", concurrency=5, queues=["default"], id="w"):
        run = app.start(waits.call(), id="r", attributes={"tier": "gold"})
        _until(lambda: run.get(shown) == "waiting")
        assert run.wait("10ms") is None
        with pytest.raises(ResultTimeout):
            run.result("10ms")
        run.pause("wait a moment")
        _until(lambda: run.status() is Status.PAUSED)
        run.signal(go, 4, id="one")
        run.resume()
        assert run.result("60s") == 4
        assert (run.status(), run.view().attributes) == (Status.COMPLETED, {"tier": "gold"})
        assert run.wait() is Status.COMPLETED
        with pytest.raises(RunFinished):
            run.signal(go, 5)
        cancelled = app.start(waits.call())
        cancelled.cancel("enough")
        assert cancelled.wait("60s") is Status.CANCELLED
        killed = app.start(waits.call())
        killed.kill("now")
        assert killed.status() is Status.CANCELLED
        failed = app.start(fails.call(), id="f")
        with pytest.raises(RunFailed, match="why"):
            failed.result("60s")
        again = failed.retry(id="f2")
        assert again.id == "f2"
        assert again.wait("60s") is Status.FAILED


def test_following_resumes_after_a_seq(app: App) -> None:
    """Promise: `follow` is an iterator that ends with the run and goes on after the last seq seen."""
    with app.worker(poll="50ms"):
        run = app.start(small.call(1))
        seen = [(x.seq, x.index, x.type) for x in run.follow()]
    assert seen[0][2] == "started"
    assert seen[-1][2] == "completed"
    middle = seen[len(seen) // 2][0]
    assert [(x.seq, x.index, x.type) for x in run.follow(after=middle)] == [x for x in seen if x[0] > middle]


def test_listing_and_topics(app: App) -> None:
    """Promise: `runs` iterates, `publish` and `waiting` tell whom they found; no worker is needed to ask."""
    for number in range(3):
        app.start(small.call(number), id=f"s{number}", delay="1h")
    assert sorted(view.id for view in app.runs(workflow="small", status="pending")) == ["s0", "s1", "s2"]
    assert len(list(app.runs(limit=2))) == 2
    assert app.publish(news, "nobody") == []
    with app.worker(poll="50ms"):
        run = app.start(reads.call(), id="reader")
        _until(lambda: app.waiting(news) == ["reader"])
        assert app.publish(news, "extra", id="p1") == ["reader"]
        assert run.result("60s") == "extra"
    assert app.waiting(news) == []
    with pytest.raises(RunNotFound):
        app.get("nobody")


def test_from_several_threads(app: App) -> None:
    """Promise: one app serves any number of threads at once."""

    def use(number: int) -> int:
        return app.start(small.call(number), id=f"t{number}").result("60s")

    with app.worker(poll="50ms"), ThreadPoolExecutor(8) as threads:
        assert list(threads.map(use, range(24))) == [number + 1 for number in range(24)]


def test_run_beside_an_open_worker(app: App) -> None:
    """Promise: `app.run` works while the app is open, on the loop that has it open."""
    with app.worker(poll="50ms"), ThreadPoolExecutor(4) as threads:
        ran = [threads.submit(app.run, small.call(number)) for number in range(4)]
        begun = [app.start(small.call(number)) for number in range(4)]
        assert [one.result(20) for one in ran] == [1, 2, 3, 4]
        assert [run.result("60s") for run in begun] == [1, 2, 3, 4]


def test_it_wraps_an_app_you_already_have(tmp_path: Path) -> None:
    """Promise: `sync.App(app)` is the same app, usable before, in and after a block; closing ends its thread."""
    before = set(threading.enumerate())
    inner = AsyncApp(f"sqlite:///{tmp_path / 'store.db'}", workflows=[small])
    app = App(inner)
    assert app.app is inner
    assert "1 workflow" in repr(app)
    assert app.run(small.call(1), id="one") == 2
    with app.worker(poll="50ms"):
        with app:  # leaving the inner block leaves the worker at work
            assert app.start(small.call(2)).result("60s") == 3
        assert app.start(small.call(3)).result("60s") == 4
    assert app.get("one").result(0) == 2
    app.close()
    assert "holdfast-sync" not in {thread.name for thread in set(threading.enumerate()) - before}
    assert app.get("one").result(0) == 2, "closed, it opens again when it is used again"
    app.close()


def test_errors_come_as_themselves(tmp_path: Path) -> None:
    """Promise: misuse is refused in the caller's thread, as in async code."""
    app = App(f"sqlite:///{tmp_path / 'store.db'}", workflows=[])
    with pytest.raises(UnknownWorkflow, match=r"App\(workflows=\[small\]\)"):
        app.run(small.call(1))
    with pytest.raises(InvalidInput, match="concurrency"), app.worker(concurrency=0):
        pytest.fail("a worker without slots")
    with pytest.raises(NotInRun, match=r"app\.start\(small\.call"):
        small(1)
    with pytest.raises(NotAllowedHere, match="works inside a run only"):
        add.options(key="k").call(1)  # type: ignore[unused-awaitable]
    assert add.options(key="k")(1) == 2, "outside a run a step is the plain function"
    with pytest.raises(NotInRun, match=r"gather\(\)"):
        gather()
    app.close()


def test_the_app_is_refused_inside_a_workflow(app: App) -> None:
    """Promise: a workflow that asks the app itself would do so on every replay: it is told what to use."""

    @workflow
    def asks() -> int:
        return app.start(small.call(1)).result()

    app.app.serve(asks)
    with app.worker(poll="50ms"), pytest.raises(RunFailed, match=r"in a workflow use|in a workflow would"):
        app.start(asks.call()).result("60s")
    with pytest.raises(NotInRun):
        continue_as(small.call(1))


def test_the_sync_saga_in_an_async_workflow_is_refused(app: App) -> None:
    """Promise: `async with` of the sync saga names the right form."""

    @workflow
    async def mixes() -> None:
        async with saga():
            pass

    app.app.serve(mixes)
    with app.worker(poll="50ms"), pytest.raises(RunFailed, match="write `with saga"):
        app.start(mixes()).result("60s")


def _until(condition: object) -> None:
    assert callable(condition)
    done = threading.Event()
    for _ in range(30_000):
        if condition():
            return
        done.wait(0.002)
    pytest.fail("never came true")
