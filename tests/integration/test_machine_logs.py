"""Standalone machines on any Holdfast store: `app.logs()` is a three-method store like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import App, Conflict, LogRow, workflow
from holdfast.client.machine_logs import MachineLogs
from holdfast.testing.conformance import MachineLogSuite
from tests.support.world import World
from tests.unit.authoring.machine.stage import A, Chain, End


class TestSqliteLogs(MachineLogSuite):
    """Bound to SQLite: opened again it is another app on the same file."""

    def open(self, folder: Path) -> MachineLogs:
        return App(f"sqlite:///{folder / 'logs.db'}").logs()


@workflow
async def other() -> None: ...


@pytest.mark.spec("cano.K7", "cano.Z6")
async def test_a_standalone_machine_lives_in_the_store_of_an_app(world: World) -> None:
    """Promise: run, fail, resume elsewhere, roll back; the log is a run that people can see, completed when cleared."""
    chain = Chain(fail="D", undo_fails="A")
    first, second = world.app().logs(), world.app().logs()
    with pytest.raises(Exception, match="undo A"):
        await chain.machine.run(A(), store=first, id="run")
    assert (await world.row("run")).workflow == "machine log"
    chain.fail = chain.undo_fails = ""
    with pytest.raises(Exception, match="had failed"):
        await chain.machine.resume("run", store=second)
    assert chain.done[-1] == "undo A"
    assert (await world.row("run")).status.value == "completed"
    assert await chain.machine.run(A(), store=first, id="run") == End(4)
    assert (await world.row("run~2")).status.value == "completed"


async def test_an_id_of_another_workflow_is_a_conflict(world: World) -> None:
    """Promise: a log never mixes with a run."""
    app = world.app(other)
    await app.start(other(), id="taken")
    with pytest.raises(Conflict, match="taken"):
        await app.logs().append("taken", LogRow(0, "entry", "A", "a", 1, "", b"{}"))


async def test_whoever_appends_late_is_fenced_and_refused(world: World) -> None:
    """Promise: two processes with one log: the rows are whole, and the second to write a row hears of it."""
    first, second = world.app().logs(), world.app().logs()
    rows = [LogRow(n, "entry", f"S{n}", "s", n + 1, "", b"{}") for n in range(3)]
    await first.append("run", rows[0])
    await second.append("run", rows[1])
    with pytest.raises(Conflict):
        await first.append("run", rows[1])
    await first.append("run", rows[2])
    assert list(await second.load("run")) == rows
