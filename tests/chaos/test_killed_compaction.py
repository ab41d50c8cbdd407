"""A process that compacts is killed: each journal is whole, before or after, and its run goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from holdfast import App, Signal, step, workflow
from holdfast.client.verification import verify_run
from holdfast.core.turn import is_compacted
from tests.support import warm

RUNS, STEPS = 24, 40
go = Signal[str]("go")
done: list[str] = []


@step
async def note(name: str) -> str:
    done.append(name)
    return name


@workflow
async def lengthy(name: str) -> int:
    total = sum([len(await note(f"{name}-{number}")) for number in range(STEPS)])
    return total + len(await go.wait())


def killed_while_compacting(path: Path) -> list[str]:
    """What the process had said when it was killed."""
    command = [sys.executable, "-m", "tests.chaos.compacting_process", str(path)]
    with warm.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(5)]
        process.kill()
        return [*said, *process.stdout.read().split()]


async def test_a_killed_compaction_leaves_every_journal_whole(tmp_path: Path) -> None:
    """Promise: SIGKILL in the middle: what was said to be compacted is, the rest is compacted or untouched, all of it
    verifies, and every run ends without repeating a step."""
    path = tmp_path / "a.db"
    app = App(f"sqlite:///{path}", workflows=[lengthy], snapshot_every=0)
    names = [f"r{number}" for number in range(RUNS)]
    async with app.worker() as worker:
        for name in names:
            await app.start(lengthy(name), id=name)
        while worker.engine.sessions or len(done) < RUNS * STEPS:
            await (await app.get(names[0])).wait("10ms")
    said = killed_while_compacting(path)
    assert 5 <= len(said) < RUNS, "it was killed too late to show anything"
    async with app.worker():
        store = (await app.client()).store
        compacted: set[str] = set()
        for name in names:
            row = await store.get(name)
            assert row is not None
            assert (await verify_run(store, row)).problem == ""
            if is_compacted((await store.history(name, limit=1))[0]):
                compacted.add(name)
        assert set(said) <= compacted
        assert len(compacted - set(said)) <= 1
        for name in names:
            run = await app.get(name, lengthy)
            await run.signal(go, "go")
            assert await run.result("30s") == sum(len(f"{name}-{number}") for number in range(STEPS)) + 2
    assert len(done) == len(set(done)) == RUNS * STEPS
