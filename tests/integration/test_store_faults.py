"""A store that fails at any single call: the run ends as it would have, and nothing is done twice.

The sweep knows no call by name but the verbs of the ports: it fails the first call of each, then the second, and so
on until the scenario ends before the fault comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import pytest

from holdfast import App, Retry, Run, RunVar, Signal, Status, current, start, step, workflow
from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.turn import decode_row
from holdfast.engine import committer, engine, store_reads
from holdfast.errors import DiskFull, StoreError
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Commit
from holdfast.ports.runs import Filter
from holdfast.ports.store import Store
from holdfast.worker import claim_loop
from tests.support.faults import FaultyStore, Mode
from tests.support.world import Kind, World, events, open_world

T = TypeVar("T")

go = Signal[str]("go")
let = Signal[int]("let")
shown = RunVar[str]("shown")
LARGE = "x" * 200_000
PATIENCE = 60.0
MOST = 60
"""More calls of one method than the scenario makes."""

effects: Counter[str] = Counter()


@step
async def record(name: str) -> str:
    effects[name] += 1
    return name


@step(retry=Retry(3, first="1ms"))
async def flaky(name: str) -> str:
    effects[name] += 1
    if current().attempt == 1:
        raise OSError("not yet")
    return name


@step
def large() -> str:
    effects["large"] += 1
    return LARGE


@workflow
async def part(number: int) -> int:
    await record(f"part {number}")
    return number + await let.wait()


@workflow
async def side() -> None:
    await record("side")


@workflow
async def whole(given: str) -> list[Any]:
    first = await record("first")
    pair = await asyncio.gather(flaky("flaky"), record("beside"))
    shown.set("half")
    start(side(), id="side")
    big = await asyncio.to_thread(large)
    child = await part(1)
    said = await go.wait()
    last = await record("last")
    return [first, *pair, len(big), len(given), child, len(said), last]


EXPECTED = ["first", "flaky", "beside", len(LARGE), len(LARGE), 8, len(LARGE), "last"]
RAN = {"first": 1, "flaky": 2, "beside": 1, "large": 1, "side": 1, "part 1": 1, "last": 1}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (committer, store_reads, claim_loop):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    effects.clear()


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """As a caller does that was told to try again: the same request, with the same id."""
    while True:
        try:
            return await ask()
        except StoreError:
            await asyncio.sleep(0)


async def scenario(store: Store, *, is_local: bool) -> None:
    """Start, park, be woken from outside, end; from a client beside a worker, or in its process."""
    app = App(workflows=[whole, part, side], store=store)
    client = app if is_local else App(workflows=[whole], store=store)
    async with app.worker(poll="20ms", ttl="15s", grace="3s"):
        run: Run[list[Any]] = await insist(lambda: client.start(whole(LARGE), id="whole"))
        child = await insist(lambda: _child_of(client, run))
        await insist(lambda: child.signal(let, 7, id="let"))
        await insist(lambda: run.signal(go, LARGE, id="go"))
        assert await insist(run.result) == EXPECTED
        assert await insist(lambda: run.get(shown)) == "half"
        assert await insist(lambda: _ended(client, "side")) is Status.COMPLETED


async def _child_of(client: App, run: Run[Any]) -> Run[Any]:
    while True:
        async for view in client.runs(parent=run.id, workflow="part"):
            return await client.get(view.id)
        await asyncio.sleep(0.001)


async def _ended(client: App, id: str) -> Status | None:
    return await (await client.get(id)).wait()


WORKERS = ["commit", "read", "unread", "claim", "held", "release", "release_all", "get_blobs"]
CLIENTS = ["create", "get", "list", "exposed", "send", "get_blob"]
REPEATED = {"get": 4, "claim": 10, "held": 6, "list": 3}
"""What loops ask again and again: after so many, one call is like the next."""

CASES = [
    (method, mode, is_local)
    for method in (*WORKERS, *CLIENTS)
    for mode in get_args(Mode)
    for is_local in ((True, False) if method in WORKERS else (True,))
]


@pytest.mark.parametrize(
    ("method", "mode", "is_local"), CASES, ids=[f"{m}-{k}-{'local' if x else 'apart'}" for m, k, x in CASES]
)
async def test_one_failing_call_changes_nothing(tmp_path: Path, method: str, mode: Mode, is_local: bool) -> None:
    """Promise: whichever call of the store fails once, the run ends with the same result and each body ran as often
    as without the fault."""
    for number in range(1, MOST):
        faulty = await play(tmp_path, partial(_one_fault, method, number, mode), is_local=is_local)
        if not faulty.fired or number >= REPEATED.get(method, MOST):
            return
    pytest.fail(f"the scenario makes more than {MOST} calls of {method}")


def _one_fault(method: str, number: int, mode: Mode, store: FaultyStore) -> None:
    store.fail(method, number, mode=mode)


async def play(
    folder: Path, prepare: Callable[[FaultyStore], None], *, is_local: bool = True, kind: Kind = "memory"
) -> FaultyStore:
    """The scenario on a fresh store that was prepared to fail; checked."""
    effects.clear()
    async with open_world(kind, folder, virtual=False) as world:
        faulty = FaultyStore(world.store)
        prepare(faulty)
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(faulty.store, is_local=is_local)
        except TimeoutError:
            page = await world.store.list(Filter())
            raise AssertionError(f"stuck after {faulty.fired}: {page.runs}") from None
    assert effects == RAN, faulty.fired
    return faulty


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_every_other_commit_fails(tmp_path: Path, kind: Kind, mode: Mode) -> None:
    """Promise: a commit is sent again, unchanged, until it is answered; one that was accepted before is recognised."""
    faulty = await play(tmp_path, lambda store: store.fail("commit", *range(1, 200, 2), mode=mode), kind=kind)
    assert len(faulty.fired) > 10


async def test_a_long_outage(tmp_path: Path) -> None:
    """Promise: however often the store refuses in a row, what was to be written is written when it answers again."""

    def prepare(store: FaultyStore) -> None:
        for method in WORKERS[:-2]:
            store.fail(method, *range(2, 8))

    assert len((await play(tmp_path, prepare)).fired) > 12


async def test_a_full_disk_loses_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: turns wait, in order, until there is room again; nothing is done twice and the log says why."""
    faulty = FaultyStore(world.store, error=lambda: DiskFull("no space left"))
    faulty.fail("commit", *range(3, 9))
    ran: list[int] = []

    @step
    async def note(number: int) -> int:
        ran.append(number)
        return number

    @workflow
    async def work() -> list[int]:
        return [await note(number) for number in range(5)]

    app = App(workflows=[work], store=faulty.store)
    async with world.worker(app):
        run = await app.start(work())
        assert await run.result("60s") == [0, 1, 2, 3, 4]
    assert ran == [0, 1, 2, 3, 4]
    assert len(faulty.fired) == 6
    assert "no space left" in caplog.text
    assert [x.data["key"] for x in await events(run) if x.type == "done"] == [
        "note",
        "note:1",
        "note:2",
        "note:3",
        "note:4",
    ]


async def test_a_worker_stops_although_the_store_accepts_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: after its grace a worker goes, whatever the store says; the run is finished by the next one."""
    monkeypatch.setattr(engine, "SETTLE", 0.01)
    faulty = FaultyStore(world.store)
    reached = asyncio.Event()

    @step
    async def note() -> str:
        faulty.fail("commit", *range(faulty.calls["commit"] + 1, 100_000))
        reached.set()
        return "noted"

    @workflow
    async def work() -> str:
        return await note()

    app = App(workflows=[work], store=faulty.store)
    async with world.worker(app, grace="10ms"):
        run = await app.start(work())
        await world.until_set(reached)
        await world.until(lambda: bool(faulty.fired))
    assert "given up" in caplog.text
    other = world.app(work)
    async with world.worker(other):
        assert await (await other.get(run.id, work)).result("60s") == "noted"


# -- an end that is refused because of unread messages -------------------------------------------------------------


def late_message(store: Store) -> Callable[[str, tuple[Any, ...]], Awaitable[None]]:
    """Sends a signal to a run in the moment in which its end is on its way to the store, once."""
    sent: list[str] = []

    async def before(name: str, args: tuple[Any, ...]) -> None:
        if name != "commit" or sent:
            return
        commits: list[Commit] = [x for x in args[0] if x.is_terminal]
        for commit in commits:
            sent.append(commit.row.run)
            event = e.SignalReceived(message="late", name="go", sender="test", value=_raw(LARGE))
            await store.send(Message(run=commit.row.run, id="late", kind="signal", body=encode_event(event)))

    return before


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("method", ["commit", "read", "unread", "get_blobs"])
async def test_a_refused_end_survives_faults(tmp_path: Path, method: str, mode: Mode) -> None:
    """Promise: an end that meets an unread message is taken again from the journal; a fault there changes nothing."""
    for number in range(1, MOST):
        effects.clear()
        async with open_world("memory", tmp_path, virtual=False) as world:
            faulty = FaultyStore(world.store)
            faulty.before = late_message(world.store)
            faulty.fail(method, number, mode=mode)
            app = App(workflows=[short], store=faulty.store)
            async with asyncio.timeout(PATIENCE), app.worker(poll="20ms", grace="1s"):
                run: Run[int] = await insist(partial(_start_short, app))
                assert await insist(run.result) == 2 * len(LARGE)
                types = [x.type async for x in run.follow()]
        assert types.count("signal") == 1
        assert effects == {"large": 1, "first": 1}, faulty.fired
        if not faulty.fired:
            return


async def _start_short(app: App) -> Run[int]:
    return await app.start(short(LARGE), id="short")


@workflow
async def short(given: str) -> int:
    await record("first")
    return len(given) + len(await asyncio.to_thread(large))


async def test_a_run_that_cannot_be_rebuilt_is_paused(world: World) -> None:
    """Promise: a body that takes another path when its end has to be taken again pauses its run; it is never stuck."""
    passes: list[int] = []

    @workflow
    async def fickle() -> str:
        passes.append(1)
        return await record("one" if len(passes) == 1 else "two")

    faulty = FaultyStore(world.store)
    faulty.before = late_message(world.store)
    app = App(workflows=[fickle], store=faulty.store)
    async with world.worker(app):
        run = await app.start(fickle())
        await world.until_status(run, Status.PAUSED)
    assert "diverged" in (await run.view()).waiting
    assert effects == {"one": 1}


def _raw(value: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


async def test_signals_keep_their_order_when_an_end_is_refused(world: World) -> None:
    """Promise: an end is refused because a message came; what comes while the journal is read again stands behind the
    messages that the refused turn had taken."""

    @workflow
    async def listening() -> str:
        return await go.wait()

    faulty = FaultyStore(world.store)
    app = App(workflows=[listening], store=faulty.store)
    async with world.worker(app) as worker:
        run = await app.start(listening())
        await world.until_waiting(run, "signal go")
        client: Run[str] = await App(store=world.store).get(run.id)
        refused: list[str] = []

        async def meanwhile(name: str, args: tuple[Any, ...]) -> None:
            if name == "commit" and args[0][0].is_terminal and not refused:
                refused.append(run.id)
                await client.signal(go, "second", id="2")
            elif name == "read" and len(refused) == 1:
                refused.append(run.id)
                await client.signal(go, "third", id="3")
                session = worker.engine.sessions[run.id]
                worker.engine.fetch_inbox(session)
                await world.until(lambda: session.inbox_seen == 3, "the session has read its inbox")

        faulty.before = meanwhile
        await client.signal(go, "first", id="1")
        assert await run.result("60s") == "first"
    assert len(refused) == 2
    rows = await world.store.history(run.id)
    journaled = [x.message for row in rows for x in decode_row(row).events if isinstance(x, e.SignalReceived)]
    assert journaled == ["1", "2", "3"]
