"""After `os.fork()`: a client opens the store anew or says why not, nothing of the parent is used or closed, and the
parent's worker stays the parent's."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import select
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App, step, sync, workflow
from holdfast.errors import StoreRefused
from tests.support.postgres import clean_url

PATIENCE = 60


@step
async def add(n: int) -> int:
    return n + 1


@workflow
async def adding(n: int) -> int:
    return await add(n)


def in_child(work: Callable[[], str], *, leaves: bool = False) -> str:
    """What the work says in a forked child. `leaves`: the child ends as processes do, with all clean-up."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            answer = work()
        except BaseException:  # noqa: BLE001 it is the parent's to judge
            answer = traceback.format_exc()
        gc.collect()
        os.write(write, answer.encode()[:60_000])
        os.close(write)
        if leaves:
            _leave()
        os._exit(0)
    os.close(write)
    said = b""
    try:
        while select.select([read], [], [], PATIENCE)[0]:
            part = os.read(read, 65_536)
            if not part:
                return said.decode()
            said += part
        return "hangs"
    finally:
        os.close(read)
        os.kill(pid, signal.SIGKILL) if said == b"" else None
        os.waitpid(pid, 0)


def _leave() -> None:
    """What the interpreter does at its end, as far as a fork of a test may: everything the child holds is let go."""
    held = [x for x in gc.get_objects() if isinstance(x, App | sync.App)]
    for app in held:
        vars(app).clear()
    del held
    gc.collect()


def refusal(work: Callable[[], object]) -> Callable[[], str]:
    def asked() -> str:
        try:
            return f"no refusal: {work()!r}"
        except StoreRefused as error:
            return f"refused: {error}"

    return asked


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/forked.db" if request.param == "sqlite" else clean_url()


def test_a_child_of_a_process_that_used_the_app_does_not_hang(url: str) -> None:
    """Contract: on PostgreSQL the child opens the store anew; on SQLite, whose locks do not hold there, it is told so.
    The parent goes on with what it had."""
    app = sync.App(url, workflows=[adding])
    before = app.start(adding(1))

    def asked() -> str:
        return f"{app.get(before.id).status()} {app.start(adding(2), id='of the child').id}"

    said = in_child(refusal(asked))
    if url.startswith("sqlite"):
        assert "refused: the store" in said
        assert "Use the app for the first time after the fork" in said
    else:
        assert said == "no refusal: 'pending of the child'"
        assert app.get("of the child").id == "of the child"
    with app.worker():
        assert before.result(timeout="60s") == 2
    app.close()


def test_an_app_that_was_closed_or_never_used_works_in_the_child(url: str) -> None:
    """Contract: an app is made before the fork (`gunicorn --preload`) and used after it."""
    app = sync.App(url, workflows=[adding])

    def asked() -> str:
        with app.worker():
            return str(app.start(adding(1)).result(timeout="60s"))

    assert in_child(asked) == "2"
    with app:
        app.start(adding(1), id="parent")
    assert in_child(lambda: f"{app.get('parent').status()}") == "pending"


def test_the_worker_of_the_parent_is_not_the_childs(url: str) -> None:
    """Contract: a child that leaves the block of its parent's worker stops nobody; the parent's worker works on."""
    app = sync.App(url, workflows=[adding])
    worker = app.worker()
    worker.__enter__()

    def leave() -> str:
        worker.__exit__(None, None, None)
        return f"left, open: {app.app.is_open}"

    assert in_child(leave, leaves=True) == "left, open: False"
    assert app.start(adding(1)).result(timeout="60s") == 2
    worker.__exit__(None, None, None)


def test_an_async_app_after_a_fork(url: str) -> None:
    """Contract: the same for `App`; a child that closes it closes nothing of the parent's."""

    async def main() -> str:
        app = App(url, workflows=[adding])
        async with app, app.worker():
            run = await app.start(adding(1), id="one")

            def asked() -> str:
                async def ask() -> str:
                    await app.close()
                    async with app:
                        return (await app.get("one")).id

                return asyncio.run(ask())

            said = in_child(refusal(asked), leaves=True)
            assert await run.result(timeout="60s") == 2
            assert await (await app.start(adding(3))).result(timeout="60s") == 4
            return said

    said = asyncio.run(main())
    assert said.startswith("refused") if url.startswith("sqlite") else said == "no refusal: 'one'"


def test_a_handle_of_the_parent_says_so_in_the_child(url: str) -> None:
    """Contract: a run handle that was made before the fork refuses in a sentence, and does not hang."""
    app = sync.App(url, workflows=[adding])
    run = app.start(adding(1))
    assert "cannot be used in the forked child" in in_child(refusal(run.status))
    assert run.status() == "pending"
    app.close()


def test_a_store_in_memory_is_its_processs() -> None:
    """Contract: a child does not get an empty store where the parent's was."""
    app = sync.App("memory://", workflows=[adding])
    app.start(adding(1), id="one")
    assert "refused: the store memory:// lives in process" in in_child(refusal(lambda: app.get("one")))


def _asked_elsewhere(url: str, answers: multiprocessing.Queue[str]) -> None:
    app = sync.App(url, workflows=[adding])
    answers.put(refusal(lambda: app.get("one").id)())


def test_multiprocessing_by_fork(url: str) -> None:
    """Contract: also a new app in the child of a process that has the store open: refused on SQLite, fine elsewhere."""
    app = sync.App(url, workflows=[adding])
    app.start(adding(1), id="one")
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_asked_elsewhere, args=(url, answers))
    process.start()
    said = answers.get(timeout=PATIENCE)
    process.join(PATIENCE)
    assert said.startswith("refused") if url.startswith("sqlite") else said == "no refusal: 'one'"
    assert app.get("one").status() == "pending"
    app.close()
