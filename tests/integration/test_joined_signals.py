"""Signals in the caller's own transaction, a start that brings its signal, and the wake-up after the commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdfast.sync as hs
from holdfast import App, Conflict, RunFinished, RunNotFound, Signal, Topic, start, workflow
from holdfast.errors import InvalidInput, NotAllowedHere, NotEncodable, RunFailed
from holdfast.testing import Sim
from tests.support.postgres import server_url
from tests.support.world import World

approved = Signal[bool]("approved")
unknown = Signal[int]("unknown")
news = Topic[str]("news")


@workflow(accepts=(approved,))
async def approve(doc: str) -> str:
    return f"{doc}: {await approved.wait()}"


@workflow
async def greet(name: str) -> str:
    return f"hello {name}"


def alchemy() -> str:
    return server_url().replace("postgresql://", "postgresql+psycopg://")


# -- run.signal(connection=…) ------------------------------------------------------------------------------------------


async def test_a_signal_comes_with_the_callers_rows(shared: World) -> None:
    """Promise: the run gets it when the block ends, and never if the block raises; a repeated id counts once."""
    app = shared.app(approve)
    run = await app.start(approve("d"), id="d")

    async def fail() -> None:
        async with app.connection() as connection:
            await run.signal(approved, False, connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await run.messages() == []
    async with app.connection() as connection:
        for _ in range(2):
            await run.signal(approved, True, id="m-1", connection=connection)
        fresh = await app.start(approve("e"), id="e", connection=connection)
        await fresh.signal(approved, False, connection=connection)
    assert [message.id for message in await run.messages()] == ["m-1"]
    async with shared.worker(app):
        assert await run.result(timeout=30) == "d: True"
        assert await fresh.result(timeout=30) == "e: False"
        async with app.connection() as connection:
            with pytest.raises(RunFinished):
                await run.signal(approved, True, connection=connection)
            ghost = await app.start(approve("ghost"), id="ghost", connection=connection)
            with pytest.raises(InvalidInput, match="unknown"):
                await fresh.signal(unknown, 1, connection=connection)
            await ghost.signal(approved, True, connection=connection)
        assert await ghost.result(timeout=30) == "ghost: True"


async def test_a_refused_signal_leaves_the_transaction_usable(shared: World) -> None:
    """Promise: what is wrong is said at once, and the rest of the transaction is kept."""
    app = shared.app(approve)
    async with app.connection() as connection:
        run = await app.start(approve("d"), id="d", connection=connection)
    await run.kill("gone")
    with pytest.raises(InvalidInput, match="cannot be joined"):
        await run.signal(approved, True, connection=object())
    async with app.connection() as connection:
        with pytest.raises(RunFinished, match="cancelled"):
            await run.signal(approved, True, connection=connection)
        kept = await app.start(approve("kept"), id="kept", connection=connection)
    assert await shared.store.get(kept.id) is not None


def test_blocking_code_signals_in_its_transaction(tmp_path: Path) -> None:
    """Promise: `holdfast.sync` has the same, and its connection is refused to code of an event loop."""
    app = hs.App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[approve])
    try:
        run = app.start(approve("d"), id="d")
        with pytest.raises(InvalidInput, match="event loop of yours"):
            run.signal(approved, True, connection=AsyncSession())
        with app.connection() as connection:
            run.signal(approved, True, connection=connection)
        with app.worker():
            assert run.result("30s") == "d: True"
            again = app.start(approve("d"), id="e", signal=(approved, False))
            assert again.result("30s") == "d: False"
    finally:
        app.close()


# -- start(signal=…) ---------------------------------------------------------------------------------------------------


async def test_a_start_brings_its_signal(world: World) -> None:
    """Promise: the run has it from the beginning; one that is there already gets it now; a repeated start with an id
    of the message sends it once."""
    app = world.app(approve)
    large = "x" * 200_000
    early = await app.start(approve("early"), id="early")
    for _ in range(2):
        same = await app.start(approve("early"), id="early", signal=(approved, True, "m-1"))
        assert same.id == early.id
    assert len(await early.messages()) == 1
    with pytest.raises(Conflict):
        await app.start(approve("else"), id="early", signal=(approved, False))
    assert len(await early.messages()) == 1
    with pytest.raises(Conflict):
        await app.start(approve("early"), id="early", signal=(approved, False), if_exists="reject")
    fresh = await app.start(approve(large), id="fresh", signal=(approved, False))
    keyed = await app.start(approve("k"), key="k", signal=(approved, True))
    async with world.worker(app):
        assert await early.result(timeout=30) == "early: True"
        assert await fresh.result(timeout=30) == f"{large}: False"
        assert await keyed.result(timeout=30) == "k: True"
        here = await app.start(approve("here"), signal=(approved, True))
        assert await here.result(timeout=30) == "here: True"
        with pytest.raises(RunFinished, match="the signal of the start was refused"):
            await app.start(approve("early"), id="early", signal=(approved, True))


async def test_a_replaced_run_leaves_the_signal_to_its_successor(world: World) -> None:
    """Promise: with `if_exists="replace"` the new run has it."""
    app = world.app(approve)
    old = await app.start(approve("old"), unique="u")
    new = await app.start(approve("new"), unique="u", if_exists="replace", signal=(approved, True))
    async with world.worker(app):
        assert await new.result(timeout=30) == "new: True"
        assert str(await old.wait(timeout=30)) == "cancelled"


@pytest.mark.parametrize(
    ("given", "options", "error", "words"),
    [
        ((approved, "yes"), {}, NotEncodable, "approved"),
        ((unknown, 1), {}, InvalidInput, "unknown.*Nothing was started"),
        ((news, "x"), {}, NotAllowedHere, "Topic"),
        (approved, {}, InvalidInput, "a signal and its value"),
        (("approved", True), {}, InvalidInput, "begin with a signal"),
        ((approved, True, ""), {}, InvalidInput, "message id"),
        ((approved, True), {"unique": "u", "debounce": "1s"}, InvalidInput, "debounce"),
    ],
)
async def test_a_wrong_signal_starts_nothing(
    given: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Promise: it is refused where it is sent, by the type that the workflow declares, and no run is made."""
    app = App("memory://", workflows=[approve])
    with pytest.raises(error, match=words):
        await app.start(approve("d"), signal=given, **options)
    assert [view async for view in app.runs()] == []


@workflow
async def inside() -> None:
    run = start(approve("child"))
    await run.signal(approved, True, connection=object())


def test_a_simulated_start_brings_its_signal() -> None:
    """Promise: `sim.start` takes it too."""
    with Sim() as sim:
        assert sim.start(approve("d"), signal=(approved, True)).result() == "d: True"


def test_a_workflow_has_no_connection() -> None:
    """Promise: in a workflow a signal goes with the turn, and the error says so."""
    with Sim() as sim, pytest.raises(RunFailed, match="leave connection= out"):
        sim.start(inside()).result()


# -- waking up after the commit ----------------------------------------------------------------------------------------


class DjangoConnection:
    """What Holdfast uses of Django's connection on psycopg 3."""

    __module__ = "django.db.backends.postgresql.base"
    vendor = "postgresql"

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.in_atomic_block = False
        self.waiting: list[Callable[[], object]] = []

    def on_commit(self, told: Callable[[], object]) -> None:
        self.waiting.append(told)


@pytest.mark.parametrize("kind", ["session", "async session", "django", "psycopg", "alchemy connection"])
async def test_workers_are_told_after_the_commit(postgres: World, kind: str) -> None:
    """Promise: nothing is told before the commit, and the run's id right after it: by SQLAlchemy's session and Django
    themselves, else by `app.wake()`. The end of a savepoint is not the commit."""
    app, heard = postgres.app(greet), list[str]()
    engine, async_engine = sqlalchemy.create_engine(alchemy()), create_async_engine(alchemy())
    await app.client()
    unsubscribe = postgres.store.subscribe(heard.append)
    match kind:
        case "session":
            with Session(engine) as session:
                for name in ("r", "again"):
                    await app.start(greet("ann"), id=name, connection=session)
                    with session.begin_nested():
                        await app.start(greet("bea"), connection=session)
                    assert name not in heard
                    session.commit()
                    assert name in heard
        case "async session":
            async with AsyncSession(async_engine) as asynchronous, asynchronous.begin():
                await app.start(greet("ann"), id="r", connection=asynchronous)
                assert heard == []
        case "django":
            with psycopg.connect(server_url()) as driver:
                django = DjangoConnection(driver)
                with pytest.raises(InvalidInput, match=r"transaction\.atomic"):
                    await app.start(greet("ann"), connection=django)
                django.in_atomic_block = True
                await app.start(greet("ann"), id="r", connection=django)
                driver.commit()
                assert heard == []
                for told in django.waiting:
                    told()
        case _:
            connect: Any = engine.connect if kind == "alchemy connection" else lambda: psycopg.connect(server_url())
            with connect() as connection:
                await app.start(greet("ann"), id="r", connection=connection)
                connection.commit()
            assert heard == []
            app.wake()
    unsubscribe()
    engine.dispose()
    await async_engine.dispose()
    assert "r" in heard
    async with postgres.worker(app):
        assert await (await app.get("r", greet)).result(timeout="60s") == "hello ann"


async def test_another_database_of_django_is_refused(postgres: World) -> None:
    """Promise: Django's connection to SQLite or MySQL is named, and nothing is written."""
    app = postgres.app(greet)
    django: Any = type("DatabaseWrapper", (), {"__module__": "django.db.backends.mysql.base", "vendor": "mysql"})()
    with pytest.raises(InvalidInput, match="Django's connection to mysql"):
        await app.start(greet("ann"), id="never", connection=django)
    with pytest.raises(RunNotFound):
        await app.get("never")
