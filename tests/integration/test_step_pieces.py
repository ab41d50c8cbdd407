"""Arguments that grow from call to call are stored once, and everything that reads them puts them together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from holdfast import App, BlobRef, Retry, Signal, StepFailed, put_blob, saga, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.exports import export_journal, import_journal
from holdfast.client.inspect.step_details import read_step
from holdfast.client.verification import verify_run
from holdfast.core import events as e
from holdfast.core.references import references_in
from holdfast.core.turn import decode_row
from holdfast.ports.store import Store
from holdfast.testing import Sim, crash_sweep
from holdfast.testing.virtual_loop import at_once
from holdfast.upkeep.compaction import compact
from tests.integration.flow_shop import COMPONENTS
from tests.support.flows import flow
from tests.support.world import World, forget_programs

go = Signal[bool]("go")
told = Signal[str]("told")


@step(input="pieces")
async def answer(turn: int, conversation: list[str]) -> int:
    return len(conversation)


@answer.undo
async def unanswer(result: int, turn: int, conversation: list[str]) -> None:
    assert result == len(conversation)


def said(number: int) -> str:
    return f"{number} says " * 2000


@workflow
async def chat(turns: int, waits: bool = False) -> int:
    conversation: list[str] = []
    for number in range(turns):
        conversation.append(said(number))
        assert await answer(number, list(conversation)) == number + 1
    if waits:
        await go.wait()
        await answer(turns, [*conversation, said(turns)])
    return len(conversation)


@step(retry=Retry.none)
async def refuse() -> None:
    raise ValueError("no")


@workflow
async def regrets(turns: int) -> str:
    try:
        async with saga():
            await chat.function(turns)
            await refuse()
    except StepFailed:
        return "undone"
    return "kept"


async def asked(store: Store, run: str) -> list[e.StepScheduled]:
    rows = await store.history(run, limit=10_000)
    return [x for row in rows for x in decode_row(row).events if isinstance(x, e.StepScheduled)]


def whole(store: Store, event: e.StepScheduled) -> dict[str, Any]:
    blobs = at_once(store.get_blobs(event.pieces))
    found: dict[str, Any] = msgspec.json.decode(b"".join(blobs[name] for name in event.pieces))
    return found


def test_a_growing_list_is_stored_once(sim: Sim) -> None:
    """Promise: what is stored grows with the list and not with its square, and every call can be read whole."""
    run = sim.start(chat(40))
    assert run.result() == 40
    events = at_once(asked(sim.store, run.id))
    assert [len(whole(sim.store, x)["conversation"]) for x in events if x.pieces] == list(range(2, 41))
    [part] = at_once(sim.store.space()).blobs
    length, calls = len(said(0)) * 40, len(said(0)) * 40 * 41 // 2
    assert part.bytes < 3 * length < calls / 6
    assert events[0].value == msgspec.Raw(msgspec.json.encode({"turn": 0, "conversation": [said(0)]}))  # it is small


def test_pieces_survive_every_crash() -> None:
    """Promise: whoever takes the run over compares the calls by their hash and stores what is missing."""
    crash_sweep(chat(2)).assert_ok()


def test_the_way_back_has_the_arguments(sim: Sim) -> None:
    """Promise: what undoes a step is given what the step was given."""
    run = sim.start(regrets(3))
    assert run.result() == "undone"
    ways_back = [x for x in at_once(asked(sim.store, run.id)) if x.undoes]
    assert [x.undoes for x in ways_back] == ["answer:2", "answer:1", "answer"]


async def test_a_replay_compares_the_whole(world: World) -> None:
    """Promise: on every store, a replay with the same arguments continues; with one that differs in a byte in the
    middle it is paused, and the step's story has the arguments in full."""
    changed: list[int] = []

    @workflow
    async def fickle() -> int:
        await answer(0, [said(1), "changed" if changed else "what was", said(2)])
        await go.wait()
        return await answer(1, [said(1), "x", said(2)])

    app = world.app(chat, fickle)
    async with world.worker(app) as worker:
        run, other = await app.start(chat(3, waits=True)), await app.start(fickle())
        await world.until_parked(run)
        await world.until_parked(other)
        changed.append(1)
        forget_programs(worker)
        await run.signal(go, True)
        await other.signal(go, True)
        assert await run.result(timeout="60s") == 3
        await world.until_status(other, "paused")
        assert "arguments of hash" in (await other.view()).waiting
    client = await app.client()
    story = await read_step(client, run.id, "answer:2")
    assert story.input == {"turn": 2, "conversation": [said(0), said(1), said(2)]}


def collected(sim: Sim) -> None:
    for _ in range(3):
        sim.advance("2d")
        at_once(sim.store.collect(timedelta(days=1)))


def test_compaction_and_collection_keep_what_an_open_run_has(sim: Sim) -> None:
    """Promise: pieces stay while their run is there, also when its rows are compacted, and go with it."""
    run = sim.start(chat(6, waits=True))
    sim.advance("1s")
    before = at_once(asked(sim.store, run.id))
    row = at_once(sim.store.get(run.id))
    assert row is not None
    assert asyncio.run(compact(sim.store, run.id, row.no, row.next_ordinal)) > 0
    collected(sim)
    assert [len(whole(sim.store, x)["conversation"]) for x in before if x.pieces] == [2, 3, 4, 5, 6]
    run.signal(go, True)
    assert run.result() == 6
    assert at_once(verify_run(sim.store, at_once(sim.store.get(run.id)))).problem == ""  # type: ignore[arg-type]
    last = at_once(asked(sim.store, run.id))[-1]
    assert len(whole(sim.store, last)["conversation"]) == 7
    sim.advance("400d")
    at_once(sim.store.remove([run.id], timedelta(days=30)))
    collected(sim)
    assert at_once(sim.store.space()).blobs == ()


def test_a_missing_piece_is_found(sim: Sim) -> None:
    """Promise: `verify` reads every piece."""
    run = sim.start(chat(3))
    run.result()
    store = sim.store
    assert isinstance(store, MemoryStore)
    name = at_once(asked(store, run.id))[-1].pieces[1]
    del store._tables.blobs[name]  # pyright: ignore[reportPrivateUsage]
    row = at_once(store.get(run.id))
    assert row is not None
    assert name in at_once(verify_run(store, row)).problem


def test_an_export_has_the_pieces(sim: Sim) -> None:
    """Promise: an imported journal is the same, and its arguments are whole."""
    run = sim.start(chat(4))
    run.result()
    target = MemoryStore()
    assert asyncio.run(import_journal(target, asyncio.run(export_journal(sim.store, run.id)), "a file")) == [run.id]
    assert [len(whole(target, x)["conversation"]) for x in at_once(asked(target, run.id)) if x.pieces] == [2, 3, 4]


def test_references_in_pieces_are_kept(sim: Sim) -> None:
    """Promise: a blob that the arguments refer to stays, wherever the cuts are."""

    @step
    async def store() -> BlobRef:
        return await put_blob(b"a picture")

    @step(input="pieces")
    async def reads(text: str, ref: BlobRef, rest: str) -> None: ...

    @workflow
    async def refers() -> None:
        await reads(said(1), await store(), said(2))

    run = sim.start(refers())
    run.result()
    event = at_once(asked(sim.store, run.id))[-1]
    assert event.refs == references_in(msgspec.json.encode(whole(sim.store, event)))
    collected(sim)
    assert at_once(sim.store.get_blob(event.refs[0])) == b"a picture"


async def test_a_secret_across_a_cut_is_hidden() -> None:
    """Promise: a secret that a cut goes through is not shown either: what is shown was put together first."""
    secretive = flow(
        "secretive", {"a": {"call": "pack", "with": {"sku": "${vars.token}"}}}, "done", vars={"token": {"secret": True}}
    )

    @workflow
    async def outer() -> int:
        await secretive(None, vars={"token": "hunter22"})
        return await answer(0, ["hunter22 " * 10_000])

    app = App("memory://", workflows=[secretive, outer, *COMPONENTS])
    async with app.worker():
        run = await app.start(outer())
        assert await run.result("1m") == 1
        client = await app.client()
        [event] = [x for x in await asked(client.store, run.id) if x.pieces]
        assert len(event.pieces) > 4
        shown = repr((await read_step(client, run.id, "answer")).input)
        assert "•••" in shown
        assert "hunter" not in shown
