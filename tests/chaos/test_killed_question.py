"""A worker killed while it answers, and between its answer and who asked: one answer, and everybody is told it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import App, UpdateTimeout
from holdfast.client.client_run import ClientRun
from holdfast.core import events as e
from tests.chaos import questioned
from tests.chaos.questioned import ask, close, desk
from tests.chaos.stage import killed_at_end, until
from tests.support.postgres import clean_url


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_question_survives_its_workers(tmp_path: Path, kind: str) -> None:
    """Promise: after SIGKILL in the middle of an answer the next worker gives it, once; after SIGKILL between the
    answer and who asked, asking again needs no worker at all."""
    url = f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else clean_url()
    ledger = tmp_path / "ledger.txt"
    ledger.touch()
    async with App(url, workflows=[desk]) as app:
        run = await app.start(desk(), id="r")
        store = (await app.client()).store
        with pytest.raises(UpdateTimeout):
            await run.update(ask, "why", id="q1", timeout="1ms")
        with killed_at_end(questioned, url, ledger):
            await until(lambda: "r why 1\n" in ledger.read_text(), "the first attempt hangs")

        async def is_answered() -> bool:
            question = await store.question("r", "q1")
            return question is not None and question.answer is not None

        assert not await is_answered()
        with killed_at_end(questioned, url, ledger):
            async with asyncio.timeout(60):
                while not await is_answered():  # noqa: ASYNC110 nobody waits for it as a caller would
                    await asyncio.sleep(0.02)
        assert await run.update(ask, "why", id="q1", timeout="60s") == "WHY"
        assert ledger.read_text() == "r why 1\nr why 2\n"
        with killed_at_end(questioned, url, ledger):
            assert await run.update(ask, "how", id="q2", timeout="60s") == "HOW"
            await run.signal(close, True)
            assert await run.result("60s") == 2
        assert await run.update(ask, "why", id="q1") == "WHY"
        turns = await cast("ClientRun[Any]", run).history()
        answers = [x.message for turn in turns for x in turn.events if isinstance(x, e.Answered)]
        assert answers == ["q1", "q2"]
