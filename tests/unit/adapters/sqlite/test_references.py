"""What a store of an earlier schema refers to, after its migration."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import apsw

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.sqlite.migrations import APPLICATION_ID, MIGRATIONS, migrate
from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.testing.conformance.references import HIDDEN, compacted, kept
from holdfast.testing.conformance.world import START, World

INNER = b"a step's own data"


async def test_a_store_of_before_keeps_what_its_runs_referred_to(tmp_path: Path) -> None:
    """Promise: rows that do not say what their payloads refer to lose nothing: the run keeps all of it until it goes,
    through compaction, and so does a run that is told its result."""
    path = tmp_path / "store.db"
    clock = VirtualClock(START)
    world = World(await open_sqlite(path, clock=clock), clock)
    await world.store.put_blob(INNER)
    holder = await world.held_run("old", workflow="parcel")
    await holder.commits(e.StepCompleted(key="s", value=HIDDEN))
    await holder.commits()
    await holder.commits()
    await world.store.close()
    _as_before(path, holder.no)
    world = World(await open_sqlite(path, clock=clock), clock)
    holder.world = world
    assert await compacted(world, holder, 2) == 1
    assert await kept(world, hash_of(INNER)) == {hash_of(INNER)}
    await holder.commits(e.Completed(value=HIDDEN))
    other = await world.held_run("other")
    started = e.ChildStarted(key="k", run="old", workflow="parcel")
    await other.commits(started, children=(other.child("old", "k"),))
    clock.advance(timedelta(days=40))
    assert (await world.store.remove(["old"], timedelta(days=30))).trees == 1
    assert await kept(world, hash_of(INNER)) == {hash_of(INNER)}
    await world.store.close()


def _as_before(path: Path, run: int) -> None:
    """Makes the file one of schema 4, in which the run refers to the blob."""
    connection = apsw.Connection(str(path))
    connection.execute(  # pyright: ignore[reportUnknownMemberType]
        """
        DROP TABLE run_blobs;
        CREATE TABLE run_blobs (
            run INTEGER NOT NULL REFERENCES runs (no), blob BLOB NOT NULL, PRIMARY KEY (run, blob)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX run_blobs_by_blob ON run_blobs (blob);
        ALTER TABLE exposed DROP COLUMN refers;
        DROP TABLE schedules;
        DROP TABLE uniques;
        DROP TABLE limits; DROP TABLE rates; DROP TABLE places; DROP TABLE waiters;
        DROP TABLE streams; DROP TABLE stream_spans; DROP TABLE answers;
        DROP TRIGGER run_made_at_gate; DROP TRIGGER run_came_to_gate;
        DROP TABLE queues; DROP TABLE shares;
        DROP INDEX runs_at_gate; DROP INDEX runs_begun;
        ALTER TABLE runs DROP COLUMN share;
        ALTER TABLE runs DROP COLUMN gated;
        """
    )
    connection.execute("INSERT INTO run_blobs (run, blob) VALUES (?, ?)", (run, bytes.fromhex(hash_of(INNER))))  # pyright: ignore[reportUnknownMemberType]
    connection.execute("PRAGMA user_version = 4")  # pyright: ignore[reportUnknownMemberType]
    connection.close()


def test_a_new_file_has_the_tables_of_a_migrated_one(tmp_path: Path) -> None:
    """Promise: the schema is the same, however a file came to it."""
    new, old = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    migrate(new)
    migrate(old, MIGRATIONS[:4])
    migrate(old)
    text = "SELECT sql FROM sqlite_schema ORDER BY name"
    assert list(new.execute(text)) == list(old.execute(text))  # pyright: ignore[reportUnknownMemberType]
    assert list(new.execute("PRAGMA application_id")) == [(APPLICATION_ID,)]  # pyright: ignore[reportUnknownMemberType]
