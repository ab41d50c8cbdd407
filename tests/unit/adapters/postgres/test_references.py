"""What a run refers to, while something of it goes and somebody else writes to it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.address import parse_address
from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.core.turn import micros
from holdfast.ports.inbox import message
from holdfast.ports.store import Store
from holdfast.testing.conformance.snapshots import long_run, snapshot_of, stand_in_for
from holdfast.testing.conformance.world import Holder, World
from tests.chaos.stage import until
from tests.support.postgres import server_url, waiting_for

GRACE = timedelta(days=1)
BIG = b'"large"'
NAME = hash_of(BIG)


@pytest.fixture
async def other(world: World) -> AsyncIterator[Store]:
    """The same store, opened by another process."""
    store = await open_postgres(world.store.url, clock=world.clock)
    yield store
    await store.close()


async def a_turn(holder: Holder) -> None:
    """Refers to the blob once more."""
    await holder.commits(e.StepCompleted(key="again", blob=NAME), blobs={NAME: BIG})


async def a_message(holder: Holder) -> None:
    """Refers to the blob once more."""
    event = e.SignalReceived(message="m", name="go", blob=NAME)
    await holder.world.store.send(message("r", "m", "signal", event, blobs=((NAME, BIG),)))


@pytest.mark.parametrize("refers_again", [a_turn, a_message])
async def test_a_compaction_leaves_the_references_that_come_meanwhile(
    world: World, other: Store, refers_again: Callable[[Holder], Awaitable[None]]
) -> None:
    """Promise: a blob that only compacted rows named, and that a turn or a message names again while they go, stays as
    long as the run does."""
    holder = await world.held_run("r")
    await holder.commits(e.StepCompleted(key="s", blob=NAME), blobs={NAME: BIG})
    await holder.commits(e.Continued(workflow="order"))
    await holder.commits()
    await holder.commits()
    stand_in = await stand_in_for(world, "r", 4)
    await _beside(world, holder, NAME, World(other, world.clock).compact(holder.no, stand_in), refers_again(holder))
    assert (await world.store.history("r"))[0].ordinal == 4
    await _stay(world, NAME)


async def test_snapshots_that_are_dropped_leave_the_references_that_come_meanwhile(world: World, other: Store) -> None:
    """Promise: what a turn names while the snapshot that named it goes stays as long as the run does."""
    holder = await long_run(world)
    snapshot, blobs = await snapshot_of(world, "r", 4)
    await world.put_snapshot(holder.no, snapshot, blobs)
    [segment] = blobs
    turn = holder.commits(e.StepCompleted(key="again", blob=segment), blobs=blobs)
    await _beside(world, holder, segment, other.drop_snapshots(), turn)
    assert dict(await world.store.snapshots([holder.no])) == {}
    await _stay(world, segment)


async def _beside(world: World, holder: Holder, blob: str, going: Awaitable[Any], coming: Awaitable[Any]) -> None:
    """Has `coming` happen when `going` has seen what is left of the run, and has yet to forget its reference to the
    blob; or as soon as `going` lets it."""
    with _kept_from_going(world, holder.no, blob) as connection:
        first = asyncio.ensure_future(going)
        await until(lambda: waiting_for(connection) > 0, "the reference is to go")
        second = asyncio.ensure_future(coming)
        await until(lambda: second.done() or waiting_for(connection) > 1, "the other has been, or stands before a lock")
    await asyncio.gather(first, second)


@contextmanager
def _kept_from_going(world: World, no: int, blob: str) -> Generator[psycopg.Connection[Any]]:
    table = quoting.Identifier(parse_address(world.store.url).schema, "run_blobs")
    lock = quoting.SQL("SELECT 1 FROM {} WHERE run = %s AND blob = %s FOR KEY SHARE").format(table)
    with psycopg.connect(server_url()) as connection:
        assert connection.execute(lock, (no, bytes.fromhex(blob))).fetchall()
        yield connection


async def test_a_payload_keeps_what_it_names_while_it_is_written(world: World) -> None:
    """Promise: a blob that nobody referred to for long, and that a payload names which somebody just stores, is not
    collected before that transaction has ended: the reference would name nothing."""
    named = await world.store.put_blob(b"the old one", kind="user")
    world.clock.advance(2 * GRACE)
    holder = b'"%s"' % named.encode()
    kept = [(hash_of(holder), base64.b64encode(holder).decode(), len(holder), [named], False)]
    with psycopg.connect(server_url()) as writer:
        schema = quoting.Identifier(parse_address(world.store.url).schema)
        writer.execute(quoting.SQL("SET LOCAL search_path TO {}").format(schema))
        writer.execute("SELECT _keep_blobs(%s, %s::jsonb, 'payload')", (micros(world.clock.now()), json.dumps(kept)))
        await world.store.collect(GRACE, limit=10)
    assert await world.store.get_blob(named) == b"the old one"


async def _stay(world: World, *blobs: str) -> None:
    world.clock.advance(GRACE * 2)
    assert not set(blobs) & set((await world.store.collect(GRACE)).names)
    assert set(await world.store.get_blobs(blobs)) == set(blobs)
    await world.verify()
