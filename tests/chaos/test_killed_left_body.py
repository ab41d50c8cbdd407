"""A worker killed while a body works that its run did not wait for: what had completed is in the journal by then."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import App, ResultTimeout
from tests.chaos import left_body
from tests.chaos.stage import killed_at_end, until
from tests.support.postgres import clean_url


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_completed_is_journaled_before_the_left_body_ends(tmp_path: Path, kind: str) -> None:
    """Promise: an outcome is durable though a thread that nobody waits for still works: after SIGKILL, once the run has
    had five seconds for its end, the step that completed does not run again."""
    url = f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else clean_url()
    ledger = tmp_path / "ledger.txt"
    ledger.touch()
    async with App(url, workflows=[left_body.pay]) as app:
        run = await app.start(left_body.pay(), id="r")
        with killed_at_end(left_body, url, ledger):
            await until(lambda: "r charge\n" in ledger.read_text(), "the step has run")
            with suppress(ResultTimeout):
                await run.result("5s")
        with killed_at_end(left_body, url, ledger):
            assert await run.result("60s") == "paid"
            later = await app.start(left_body.pay(), id="later")
            assert await later.result("60s") == "paid"
    assert Counter(ledger.read_text().splitlines()) == {
        "r slow": 1,
        "r charge": 1,
        "later slow": 1,
        "later charge": 1,
    }
