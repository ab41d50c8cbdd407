"""The oracle of tests with lease managers: it sees two writers of one epoch, and an attempt that began twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import App
from tests.chaos import leased_process
from tests.chaos.leased_fleet import STEPS, Body, check_writers
from tests.chaos.leased_process import counted


async def test_two_writers_of_one_epoch_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: what one worker did passes; the same with one body from another process does not, nor with one that
    began again."""
    monkeypatch.setattr(leased_process, "LEDGER", [tmp_path / "ledger"])
    app = App("memory://", workflows=[counted])
    async with app.worker() as worker:
        run = await app.start(counted(STEPS), id="r")
        assert await run.result("30s") == sum(range(STEPS))
        rows = await worker.store.history("r")
    bodies: list[Body] = [("r", number, 1, os.getpid(), 0.0) for number in range(STEPS)]
    check_writers(rows, bodies)
    with pytest.raises(AssertionError, match="two writers"):
        check_writers(rows, [*bodies[:-1], ("r", STEPS - 1, 1, 1, 0.0)])
    with pytest.raises(AssertionError, match="began twice"):
        check_writers(rows, [*bodies, bodies[0]])
