"""Several processes on one file, and what is left of one that was killed."""

from __future__ import annotations

import os
import random
import selectors
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import open_sqlite
from holdfast.testing.conformance.world import START, World
from tests.unit.adapters.sqlite.processes import Program, started


def is_sound(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


@pytest.mark.slow
async def test_what_was_acknowledged_survives_a_kill(path: Path, rng: random.Random) -> None:
    """Contract: whenever the process is killed, every turn it was told of is stored, and the file is sound."""
    for number in range(6):
        run = f"order-{number}"
        with started("commit_for_ever", path, run) as program:
            assert program.line() == "waiting"
            program.go()
            acknowledged = [int(program.line()) for _ in range(rng.randrange(1, 150))]
            acknowledged += [int(line) for line in program.kill()]
        store = await open_sqlite(path, clock=VirtualClock(START))
        world = World(store, VirtualClock(START))
        stored = [row.ordinal for row in await store.history(run, limit=100_000)]
        assert set(acknowledged) <= set(stored)
        assert stored == list(range(1, stored[-1] + 1))
        await world.verify()
        await store.close()
        assert is_sound(path)


def shares(programs: list[Program], total: int) -> list[int]:
    """How many lines each says until there are so many in all."""
    counts = [0] * len(programs)
    with selectors.DefaultSelector() as selector:
        for number, program in enumerate(programs):
            assert program.line() == "waiting"
            selector.register(program.process.stdout.fileno(), selectors.EVENT_READ, number)  # type: ignore[union-attr]
        for program in programs:
            program.go()
        while sum(counts) < total:
            for key, _ in selector.select():
                counts[key.data] += os.read(key.fd, 65536).count(b"\n")
    return counts


@pytest.mark.slow
def test_processes_that_commit_share_evenly(path: Path) -> None:
    """Contract: no process starves while others write without a pause (with SQLite's busy_timeout one did)."""
    with ExitStack() as stack:
        programs = [stack.enter_context(started("commit_for_ever", path, f"order-{n}")) for n in range(3)]
        counts = shares(programs, 1500)
    assert min(counts) > 1500 / 3 / 4, counts


@pytest.mark.slow
def test_heartbeats_get_through(path: Path) -> None:
    """Contract: a worker beats while another process commits without a pause."""
    with started("commit_for_ever", path, "order-1") as busy, started("beat_for_ever", path, "i9") as heart:
        counts = shares([busy, heart], 1000)
    assert counts[1] > 50, counts


@pytest.mark.slow
def test_processes_that_start_at_once_migrate_once(path: Path) -> None:
    """Contract: any number of processes open a new file at the same moment; all of them get the same store."""
    with ExitStack() as stack:
        programs = [stack.enter_context(started("open_and_close", path)) for _ in range(4)]
        for program in programs:
            assert program.line() == "waiting"
        for program in programs:
            program.go()
        assert [program.line() for program in programs] == ["opened"] * 4
    assert is_sound(path)


def test_without_room_nothing_is_kept_and_later_all_goes_on(path: Path) -> None:
    """Contract: a full disk is a `DiskFull`, leaves no half turn, and is forgotten once there is room."""
    with started("fill_the_disk", path) as program:
        assert program.rest() == ["full", "kept", "went on"]
    assert is_sound(path)


def test_a_forked_child_is_refused_and_harms_nothing(path: Path) -> None:
    """Contract: a store is of one process; its forked child is told so, and its end leaves the parent's locks alone."""
    with started("fork", path) as program:
        lines = program.rest()
    assert [line.split()[0] for line in lines] == ["StoreRefused", "parent"]
    assert "forked child" in lines[0]
    assert is_sound(path)


async def test_a_worker_of_the_same_id_takes_over_from_a_dead_process(path: Path) -> None:
    """Contract: runs of an instance whose process is gone are freed at once, though its id promised nothing."""
    with started("hold_and_wait", path) as program:
        assert program.line() == "order-1"
        store = await open_sqlite(path, clock=VirtualClock(START))
        world = World(store, VirtualClock(START))
        early = await world.worker("i2", "w1")
        assert await world.claimed_ids(early) == []
        program.kill()
        await world.worker("i3", "w1")
        assert await world.claimed_ids(early) == ["order-1"]
        await store.close()
