"""An app, or the handle of a run, that is used in a workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Run, Signal, Status, Stream, Topic, Update, workflow
from holdfast.errors import RunFailed
from holdfast.testing import Sim

news = Topic[str]("news")
GENERAL = r"an app was used in a workflow.*use start\(…\).*or use the app in a step"


HANDLE = r"the handle of run w was used in a workflow.*use signals and children there, or use the handle in a step"
go = Signal[int]("go")
ask = Update[int, int]("ask")
said = Stream[str]("words")


@workflow
async def other() -> None: ...


@workflow
async def one_of_many(n: int) -> None: ...


@workflow
async def waits() -> int:
    return await go.wait()


async def borrow(app: App) -> None:
    async with app.connection():
        """Nothing: it is refused."""


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda app: app.start(other()), r"app\.start\(other\(…\)\) in a workflow.*use start\(other\(…\)\)"),
        (lambda app: app.get("r"), GENERAL),
        (lambda app: app.publish(news, "rain"), GENERAL),
        (borrow, GENERAL),
    ],
    ids=["start", "get", "publish", "connection"],
)
def test_an_app_in_a_workflow_is_refused(
    use: Callable[[App], Awaitable[Any]], words: str, sim: Sim, tmp_path: Path
) -> None:
    """Promise: the error names the call and what to use instead, and no store is made."""
    app = App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[other])

    @workflow
    async def uses() -> None:
        await use(app)

    with pytest.raises(RunFailed, match=words):
        sim.start(uses()).result()
    assert not app.is_open
    assert list(tmp_path.iterdir()) == []


async def runs_of(app: App) -> None:
    async for _ in app.runs():
        """Nothing: it is refused."""


async def parts_of(run: Run[Any]) -> None:
    async for _ in run.read(said):
        """Nothing: it is refused."""


USES: dict[str, tuple[Callable[[App, Run[Any]], Awaitable[Any]], str]] = {
    "start": (lambda app, _: app.start(other()), r"app\.start\(other\(…\)\) in a workflow.*use start\(other\(…\)\)"),
    "start_batch": (lambda app, _: app.start_batch(one_of_many, []), GENERAL),
    "get": (lambda app, _: app.get("r"), GENERAL),
    "publish": (lambda app, _: app.publish(news, "rain"), GENERAL),
    "runs": (lambda app, _: runs_of(app), GENERAL),
    "queues": (lambda app, _: app.queues(), GENERAL),
    "connection": (lambda app, _: borrow(app), GENERAL),
    "signal": (lambda _, run: run.signal(go, 1), HANDLE),
    "status": (lambda _, run: run.status(), HANDLE),
    "cancel": (lambda _, run: run.cancel(), HANDLE),
    "retry": (lambda _, run: run.retry(), HANDLE),
    "messages": (lambda _, run: run.messages(), HANDLE),
    "result": (lambda _, run: run.result(), "in a workflow: await the workflow itself"),
    "update": (
        lambda _, run: run.update(ask, 1),
        r"run\.update\(ask, …\) in a workflow would ask again on every replay",
    ),
    "read": (lambda _, run: parts_of(run), r"run\.read\(\) in a workflow would not replay"),
}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("verb", USES)
async def test_an_app_whose_store_is_open_is_refused_too(verb: str, kind: str, tmp_path: Path) -> None:
    """Promise: a workflow neither reads nor changes the store past its journal, although the store is open in the same
    process and answers at once."""
    use, words = USES[verb]

    @workflow
    async def uses() -> None:
        await use(app, handles[0])

    app = App("memory://" if kind == "memory" else f"sqlite:///{tmp_path / 'x.db'}", workflows=[other, waits, uses])
    async with app, app.worker():
        waiting = await app.start(waits(), id="w")
        handles = [waiting]
        with pytest.raises(RunFailed, match=words):
            await (await app.start(uses())).result("30s")
        assert await waiting.status() is Status.RUNNING
        assert await waiting.messages() == []
        assert [run.id async for run in app.runs(workflow="other")] == []
