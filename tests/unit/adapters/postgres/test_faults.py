"""What goes wrong between a store and its server: lost answers, lost connections, deadlocks, servers that go away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import PostgresStore, open_postgres
from holdfast.core import events as e
from holdfast.errors import StoreContended, StoreUnavailable
from holdfast.ports.inbox import Accepted
from holdfast.ports.journal import Committed, Refused, Verdict
from holdfast.ports.runs import Made
from holdfast.ports.store import OTHERS
from holdfast.testing.conformance.world import DONE, START, World, seconds
from holdfast.testing.conformance.world import signal as message
from tests.support.postgres import clean_url, server_port, server_url
from tests.support.postgres_guard import Server
from tests.support.proxy import WRITES, Proxy


async def opened(url: str) -> World:
    clock = VirtualClock(START)
    return World(await open_postgres(url, clock=clock), clock)


async def test_a_commit_whose_answer_was_lost_is_done_once() -> None:
    """Contract: the connection is cut after the server did it; the same is sent again and recognised: one run per key,
    no row twice, no message twice, and nobody hears of it."""

    calls, migrated = count(1), asyncio.Event()

    def cuts(data: bytes) -> bool:
        return migrated.is_set() and any(word in data for word in WRITES) and next(calls) % 4 == 0

    with Proxy(server_port(), cuts) as proxy:
        world = await opened(clean_url("&notices=off").replace(str(server_port()), str(proxy.port)))
        migrated.set()
        worker = await world.worker("i1")
        for number in range(25):
            made = await world.create(world.new(f"r{number}", key=f"k{number}"))
            assert isinstance(made, Made)
        holders = [await world.reader(run) for run in (await world.claim(worker, limit=25)).runs]
        assert len(holders) == 25
        for holder in holders:
            assert isinstance(await holder.commit(), Committed)
            assert isinstance(await world.store.send(message(holder.id, "m")), Accepted)
        batch = [holder.turn(DONE, inbox_seen=1, is_consuming=True) for holder in holders]
        assert all(isinstance(verdict, Committed) for verdict in await world.store.commit(batch))
        await world.verify()
        assert {run.next_ordinal for run in await world.runs()} == {4}
        assert {run.inbox_last for run in await world.runs()} == {1}
        await world.store.close()
        assert proxy.cut >= 10


async def test_a_claim_whose_answer_was_lost_is_said_to_be() -> None:
    """Contract: the claim is not asked again behind the worker's back: nobody would know of what the first one took.
    The worker hears of it, finds the runs among those it holds, and can give them back."""
    lost = count(1)

    def cuts(data: bytes) -> bool:
        return b".claim(" in data and next(lost) == 1

    with Proxy(server_port(), cuts) as proxy:
        world = await opened(clean_url("&notices=off").replace(str(server_port()), str(proxy.port)))
        worker = await world.worker("i1")
        for name in "abc":
            await world.make(name)
        with pytest.raises(StoreUnavailable):
            await world.claim(worker, limit=2)
        assert sorted(await world.store.held("i1")) == ["a", "b"]
        assert [run.id for run in (await world.claim(worker, limit=2)).runs] == ["c"]
        await world.store.close()


async def test_overlapping_batches_never_deadlock(world: World) -> None:
    """Contract: rows are locked in their order, targets included: whatever two processes write to each other's runs,
    both get through, and no deadlock is even detected."""
    other = World(await open_postgres(_url(world), clock=world.clock), world.clock)
    before = _deadlocks()
    for name in "abcdef":
        await world.held_run(name)
    holders = {row.id: await world.reader(row) for row in await world.runs()}

    async def send(via: World, names: list[str], targets: list[str], round_: int) -> list[Any]:
        turns = [
            holders[name].turn(messages=(message(target, f"{round_}-{name}"),))
            for name, target in zip(names, targets, strict=True)
        ]
        verdicts = await via.store.commit(turns)
        for name, turn, verdict in zip(names, turns, verdicts, strict=True):
            assert isinstance(verdict, Committed)
            holders[name].accept(turn)
        return list(verdicts)

    for number in range(20):
        await asyncio.gather(
            send(world, ["a", "b", "c"], ["f", "e", "d"], number), send(other, ["f", "e", "d"], ["a", "b", "c"], number)
        )
    assert _deadlocks() == before
    await other.store.close()
    await world.verify()


async def test_a_connection_that_is_ended_is_replaced(world: World) -> None:
    """Contract: `pg_terminate_backend` of every connection costs nothing but time; the same question is asked again."""
    holder = await world.held_run("r")
    await holder.commits()
    heart = world.store.heart("i1", seconds(15))
    heart.beat()
    _terminate_all(world)
    await holder.commits()
    assert not heart.beat().has_lapsed
    assert (await world.get("r")).next_ordinal == 4
    await world.make("another")
    await world.verify()
    heart.close()


async def test_a_server_that_hangs_is_given_up() -> None:
    """Contract: where no error ever comes (a black hole), an answer is waited for less than half a lease."""
    held = asyncio.Event()
    with Proxy(server_port(), hangs=lambda data: b"beat(" in data and held.is_set()) as proxy:
        world = await opened(clean_url("&notices=off").replace(str(server_port()), str(proxy.port)))
        await world.worker("i1")
        heart = world.store.heart("i1", seconds(2))
        await asyncio.to_thread(heart.beat)
        held.set()
        with pytest.raises(StoreUnavailable):
            await asyncio.to_thread(heart.beat)
        held.clear()
        await asyncio.to_thread(heart.beat)
        heart.close()
        await world.store.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, which it may stop."""
    own = Server(tmp_path)
    own.make()
    own.start()
    yield own
    own.stop()


async def test_a_locked_row_delays_only_whoever_wants_it(server: Server) -> None:
    """Contract: somebody's open transaction on a run is waited for shortly, then its commit is refused with nothing
    written; commits of other runs that shared the transaction are done. (On a server of its own: that transaction would
    hold back readers of trees in other tests.)"""
    world = await opened(server_url("locked", port=server.port) + "&notices=off")
    first, second = await world.held_run("a"), await world.held_run("b")
    with psycopg.connect(server_url(port=server.port)) as foreign:
        foreign.execute("SELECT 1 FROM locked.runs WHERE id = 'a' FOR UPDATE")
        stuck, done = await asyncio.gather(
            world.store.commit([first.turn()]), world.store.commit([second.turn()]), return_exceptions=True
        )
    assert isinstance(stuck, StoreUnavailable)
    assert isinstance(done, list)
    assert (await world.get("a")).next_ordinal == 2
    await world.verify()
    await world.store.close()


async def test_a_locked_row_is_waited_for_once(server: Server) -> None:
    """Promise: who keeps a run's row locked holds up the turns that share its transaction once, for as long as a lock
    is waited for. From then on that run is tried apart, and nothing of it is sent while the row is held: a worker's
    other runs go on. When the lock is gone its turn is written."""
    checksums: list[bytes] = []
    sent: list[bytes] = []

    def noted(data: bytes) -> bool:
        sent.extend(checksum for checksum in checksums if checksum in data)
        return False

    with Proxy(server.port, drops=noted) as proxy:
        world = await opened(server_url("waited", port=proxy.port) + "&notices=off")
        held, other = await world.held_run("a"), await world.held_run("b")
        turn = held.turn(e.Resumed(actor="me"))  # unlike those of the other run, whose checksum would be the same
        checksums.append(turn.row.checksum)
        with psycopg.connect(server_url(port=server.port)) as foreign:
            foreign.execute("SELECT 1 FROM waited.runs WHERE id = 'a' FOR NO KEY UPDATE")
            first = other.turn()
            refused, taken = await world.store.commit([turn, first])
            assert isinstance(refused, Refused)
            assert isinstance(refused.error, StoreContended)
            assert isinstance(taken, Committed)
            other.accept(first)
            assert len(sent) == 1
            stuck, done = await asyncio.gather(
                world.store.commit([turn]), world.store.commit([other.turn()]), return_exceptions=True
            )
            assert isinstance(stuck, StoreContended)
            assert [type(verdict) for verdict in cast("list[Verdict]", done)] == [Committed]
            assert len(sent) == 1
        assert [type(verdict) for verdict in await world.store.commit([turn])] == [Committed]
        assert len(sent) == 2
        await world.verify()
        await world.store.close()


async def test_a_commit_still_on_its_way_is_waited_for(server: Server) -> None:
    """Contract: the connection is lost while the server is still at the commit, held up by somebody's lock, so that
    nothing of it could be read back. The very same turn is sent again and waits behind the first; that one is written,
    the second is refused by the next ordinal and known by its checksum: Committed, and one row. The connection is open
    before: a lane without one sends nothing by the plain statement."""
    checksums: list[bytes] = []
    sent = count(1)

    def drops(data: bytes) -> bool:
        return any(checksum in data for checksum in checksums) and next(sent) == 1

    with Proxy(server.port, drops=drops) as proxy:
        world = await opened(server_url("onitsway", port=proxy.port) + "&notices=off")
        holder, other = await world.held_run("r"), await world.held_run("other")
        assert isinstance(await other.submit(other.turn()), Committed)
        turn = holder.turn(e.Resumed(actor="me"))  # unlike that one, whose checksum would be the same
        checksums.append(turn.row.checksum)
        with psycopg.connect(server_url(port=server.port)) as foreign:
            foreign.execute("SELECT 1 FROM onitsway.runs WHERE id = 'r' FOR UPDATE")
            committing = asyncio.ensure_future(holder.submit(turn))
            first, _ = await _two_waiting(server)
            assert not committing.done()
        verdict = await committing
        with psycopg.connect(server_url(port=server.port)) as reader:
            wrote = reader.execute(
                "SELECT xmin::text, seq FROM onitsway.events WHERE ordinal = 2 AND run = %s", (turn.no,)
            ).fetchall()
        assert isinstance(verdict, Committed)
        assert wrote == [(first, verdict.seq)]
        assert proxy.cut == 1
        assert next(sent) == 4  # sent three times: the plain statement, again after the cut, and the function
        assert (await world.get("r")).next_ordinal == 3
        await world.verify()
        await world.store.close()


async def _two_waiting(server: Server) -> list[str]:
    """The transactions of two commits that wait for a lock, in the order in which they came."""
    deadline = asyncio.get_running_loop().time() + 30
    async with await psycopg.AsyncConnection.connect(server_url(port=server.port), autocommit=True) as looking:
        while True:
            found = [xid for (xid,) in await (await looking.execute(_WAITING)).fetchall()]
            if len(found) == 2 or asyncio.get_running_loop().time() > deadline:
                return found


_WAITING = """
SELECT backend_xid::text FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND query ~ 'commit_one|next_ordinal' AND pid <> pg_backend_pid()
ORDER BY backend_xid::text::bigint
"""


async def test_what_was_acknowledged_survives_the_server(server: Server) -> None:
    """Contract: an immediate stop loses no commit that was answered; when the server is back, everything goes on."""
    world = await opened(server_url("survives", port=server.port) + "&notices=off")
    holder = await world.held_run("r")
    await holder.commits()
    committing = asyncio.ensure_future(_commit_until(holder, 30))
    await asyncio.sleep(0)
    await asyncio.to_thread(server.stop, signal.SIGQUIT)
    with pytest.raises(StoreUnavailable):
        await world.store.get("r")
    await asyncio.to_thread(server.start)
    await committing
    assert (await world.get("r")).next_ordinal == holder.run.ordinal + 1
    await world.verify()
    await world.store.close()


async def _commit_until(holder: Any, ordinal: int) -> None:
    """As the engine does: the same turn is sent until the store says what became of it."""
    while holder.run.ordinal < ordinal:
        turn = holder.turn()
        while True:
            try:
                assert isinstance(await holder.submit(turn), Committed)
                break
            except StoreUnavailable:
                continue


async def test_other_processes_hear_of_writes() -> None:
    """Contract: a write rises `changes` of every other store of the schema, soon, and its listeners are told; its own
    stands still."""
    url = clean_url()
    writer, listener = await open_postgres(url), await open_postgres(url)
    for store in (writer, listener):
        store.changes()
    await until(lambda: _is_listening(listener) and _is_listening(writer))
    heard, own = listener.changes(), writer.changes()
    told: dict[PostgresStore, list[str]] = {writer: [], listener: []}
    for store, heard_by in told.items():
        store.subscribe(heard_by.append)
    clock = VirtualClock(START)
    await World(writer, clock).make("r")
    await until(lambda: told[listener] != [])
    assert set(told[listener]) == {OTHERS}
    assert listener.changes() > heard
    assert (writer.changes(), set(told[writer])) == (own, {"r"})
    await writer.close()
    await listener.close()


async def test_by_the_servers_clock_too_a_run_is_left_for_whoever_holds_its_definition() -> None:
    """Contract: as on a clock that tests move: a live worker's definitions are held, those of an ended one are not."""
    world = World(await open_postgres(clean_url("&notices=off")), VirtualClock(START))
    stranger = await world.worker("i1", definitions=(("parcel", ""),))
    await world.worker("i2", definitions=(("order", ""),))
    await world.make("r")
    claims = await world.claim(stranger)
    assert (claims.runs, claims.put_off) == ([], ())
    await world.store.release_all("i2")
    assert [run for run, _ in (await world.claim(stranger)).put_off] == ["r"]
    await world.store.close()


async def until(condition: Callable[[], bool]) -> None:
    """Looks until it holds."""
    never = asyncio.Event()
    async with asyncio.timeout(30):
        while not condition():
            with suppress(TimeoutError):
                await asyncio.wait_for(never.wait(), 0.01)


def _is_listening(store: PostgresStore) -> bool:
    return bool(vars(store)["_notices"].is_listening)


def _url(world: World) -> str:
    return world.store.url


def _deadlocks() -> Any:
    with psycopg.connect(server_url()) as connection:
        return connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()


def _terminate_all(world: World) -> None:
    """Every connection whose last question was about this schema."""
    schema = _url(world).partition("schema=")[2].partition("&")[0]
    with psycopg.connect(server_url(), autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast' "
            "AND query LIKE %s",
            (f'%"{schema}".%',),
        ).fetchall()
    assert len(found) >= 3
