"""A message that cannot be read, is not what was sent, or is missing, concerns its run alone, and changes no result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import sql as quoting

from holdfast import Conflict, RunFinished, RunVar, Signal, Status, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.memory.tables import Letter, Tables
from holdfast.client.verification import verify_run
from holdfast.errors import CorruptJournal
from holdfast.ports.inbox import Message
from tests.support.postgres import server_url
from tests.support.world import World

go = Signal[int]("go")
stage = RunVar[str]("stage")


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def waits_thrice() -> list[int]:
    return [await go.wait() for _ in range(3)]


@step
async def double(number: int) -> int:
    return number * 2


@workflow
async def shows(number: int) -> int:
    stage.set("as it was")
    return await double(number)


@workflow
async def parent() -> int:
    return await shows(21) + await go.wait()


Damage = tuple[str, Callable[[Tables], None]]


def _letter(tables: Tables, number: int) -> tuple[dict[str, Letter], Letter]:
    for letters in tables.inbox.values():
        for letter in letters.values():
            if letter.no == number:
                return letters, letter
    raise AssertionError


def _body(tables: Tables, number: int) -> None:
    _, letter = _letter(tables, number)
    letter.body = letter.body.replace(b"7", b"8")


def _gone(tables: Tables, number: int) -> None:
    letters, letter = _letter(tables, number)
    del letters[letter.id]


def _moved(tables: Tables, number: int) -> None:
    _letter(tables, number)[1].no = number + 5


async def damage(world: World, statement: str, in_memory: Callable[[Tables], None]) -> None:
    """Changes the store behind its back. {blob} is a text as bytes there."""
    if isinstance(world.store, MemoryStore):
        in_memory(world.store._tables)  # pyright: ignore[reportPrivateUsage]
    elif world.kind == "sqlite":
        await asyncio.to_thread(_in_file, str(world.path), statement)
    else:
        schema = world.store.url.partition("schema=")[2].partition("&")[0]
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
            connection.execute(statement.encode())


def _in_file(path: str, statement: str) -> None:
    connection: Any = apsw.Connection(path)
    connection.execute(statement)
    connection.close()


BODIES: dict[str, str] = {
    "sqlite": "UPDATE inbox SET body = CAST(replace(CAST(body AS TEXT), '7', '8') AS BLOB) WHERE no = 2",
    "postgres": "UPDATE inbox SET body = replace(convert_from(body, 'UTF8'), '7', '8')::bytea WHERE no = 2",
    "memory": "",
}
DAMAGES: dict[str, tuple[str | dict[str, str], Callable[[Tables], None], str]] = {
    "changed": (BODIES, lambda t: _body(t, 2), "message 2 in its inbox was changed or damaged"),
    "deleted": ("DELETE FROM inbox WHERE no = 2", lambda t: _gone(t, 2), "message 2 in its inbox is missing"),
    "the last deleted": (
        "DELETE FROM inbox WHERE no = 3",
        lambda t: _gone(t, 3),
        "message 3 in its inbox is",
    ),
    "renumbered": (
        "UPDATE inbox SET no = 7 WHERE no = 2",
        lambda t: _moved(t, 2),
        "message 2 in its inbox is",
    ),
}


async def paused(world: World, run: Any, words: str) -> None:
    """Waits until the run is paused with these words."""
    await world.until(lambda: _stands(run, words), words)


async def _stands(run: Any, words: str) -> bool:
    return words in (await run.view()).waiting


async def test_an_unreadable_message_holds_up_no_other_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: runs claimed together with one whose inbox cannot be read go on; that one is paused, with what to do."""
    app = world.app(waits)
    runs = [await app.start(waits(), id=f"r{number}") for number in range(6)]
    for number, run in enumerate(runs):
        if number == 0:
            await world.store.send(Message(run=run.id, id="bad", kind="signal", body=b"{not an event"))
        else:
            await run.signal(go, number)
    async with world.worker(app):
        assert [await run.result("60s") for run in runs[1:]] == [1, 2, 3, 4, 5]
        await paused(world, runs[0], "holdfast messages drop r0 1")
    assert "run r0: message 1 in its inbox does not decode" in caplog.text


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_message_that_is_not_what_was_sent_pauses_its_run(world: World, how: str) -> None:
    """Promise (S19): no other result comes of it. Given up by an operator, the run goes on without it."""
    statement, in_memory, words = DAMAGES[how]
    app = world.app(waits_thrice)
    run = await app.start(waits_thrice(), id="r")
    for number in (1, 7, 3):
        await run.signal(go, number, id=f"m{number}")
    await damage(world, statement if isinstance(statement, str) else statement[world.kind], in_memory)
    assert any(words in problem for problem in (await verify_run(world.store, await world.row("r"))).problems)
    async with world.worker(app):
        await paused(world, run, words)
        await run.resume()
        await paused(world, run, words)
        assert await run.drop_message(3 if how == "the last deleted" else 2, "rotten") is False
        if how == "renumbered":
            await damage(world, "DELETE FROM inbox WHERE no = 7", lambda t: _gone(t, 7))
        await run.signal(go, 9)
        await run.resume()
        assert await run.result("60s") == ([1, 7, 9] if how == "the last deleted" else [1, 3, 9])
    assert (await verify_run(world.store, await world.row("r"))).problems == ()
    dropped = [event.data for event in [x async for x in run.follow()] if event.type == "dropped"]
    assert [(x["number"], x["reason"]) for x in dropped] == [(3 if how == "the last deleted" else 2, "rotten")]
    with pytest.raises(RunFinished):
        await run.drop_message(1)


async def test_a_run_that_is_held_is_paused_too(world: World) -> None:
    """Promise: also if its worker has it in hands; what came before the bad message is taken in."""
    app = world.app(waits_thrice)
    async with world.worker(app):
        run = await app.start(waits_thrice(), id="r")
        await world.until(lambda: _stands(run, "waiting"))
        await run.signal(go, 1)
        await world.store.send(Message(run="r", id="bad", kind="signal", body=b"{}"))
        await run.signal(go, 3)
        await paused(world, run, "message 2 in its inbox")
        with pytest.raises(Conflict, match="no message 1 waits"):
            await run.drop_message(1)
        await run.drop_message(2)
        await run.resume()
        await run.signal(go, 4)
        assert await run.result("60s") == [1, 3, 4]


async def test_the_end_of_a_child_is_told_again(world: World) -> None:
    """Promise: a damaged end of a child is not lost: its journal has it."""
    app = world.app(parent, shows)
    run = await app.start(parent(), id="p")
    child = "p/shows"
    async with world.worker(world.app(parent)):
        await world.until(lambda: world.store.get(child))
    async with world.worker(world.app(shows)):
        await world.until(lambda: _has_ended(world, child))
    await damage(world, "UPDATE inbox SET body = 'x'" if world.kind == "postgres" else "UPDATE inbox SET body = x'00'",
                 _spoiled)  # fmt: skip
    async with world.worker(app):
        await paused(world, run, "message 1 in its inbox was changed")
        assert await run.drop_message(1) is True
        await run.resume()
        await run.signal(go, 1)
        assert await run.result("60s") == 43


def _spoiled(tables: Tables) -> None:
    for letters in tables.inbox.values():
        for letter in letters.values():
            letter.body = b"\0"


async def _has_ended(world: World, run: str) -> bool:
    row = await world.store.get(run)
    return row is not None and row.status is Status.COMPLETED


async def test_a_damaged_value_is_not_shown(world: World) -> None:
    """Promise (S19): what a run shows is what it set, or an error."""
    async with world.serving(shows) as app:
        run = await app.start(shows(1), id="r")
        await run.result("60s")
        assert await run.get(stage) == "as it was"

        def spoil(tables: Tables) -> None:
            for values in tables.exposed.values():
                for name, value in values.items():
                    values[name] = type(value)(name, b'"bad"', value.blob, value.checksum)

        bad = "'\"bad\"'::bytea" if world.kind == "postgres" else "CAST('\"bad\"' AS BLOB)"
        await damage(world, f"UPDATE exposed SET value = {bad}", spoil)  # noqa: S608
        with pytest.raises(CorruptJournal, match="the stored copy of 'stage'"):
            await run.get(stage)
    assert "was changed or damaged" in (await verify_run(world.store, await world.row("r"))).problem


async def test_a_message_from_before_checksums_is_taken_as_it_is(world: World) -> None:
    """Promise: what an older version stored is read, and `verify` says that nothing can tell whether it holds."""
    app = world.app(waits)
    run = await app.start(waits(), id="r")
    await run.signal(go, 7)

    def forget(tables: Tables) -> None:
        _letter(tables, 1)[1].checksum = b""

    await damage(world, "UPDATE inbox SET checksum = x''", forget)
    finding = await verify_run(world.store, await world.row("r"))
    assert finding.problems == ()
    assert "written before checksums" in finding.notes[0]
    async with world.worker(app):
        assert await run.result("60s") == 7
