"""`holdfast worker`: what it says before it serves."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.adapters.sqlite.store import open_sqlite
from holdfast.cli.commands.worker import tell_of_new_store


async def test_a_worker_says_that_it_makes_a_new_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a worker in the wrong folder does not make a second, empty store in silence; an existing store, and one
    of this process only, get no warning."""
    caplog.set_level(logging.WARNING)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    await tell_of_new_store("sqlite:///:memory:")
    await tell_of_new_store("memory://")
    assert caplog.messages == []
    await tell_of_new_store(url)
    (said,) = caplog.messages
    assert said.startswith(f"creating a new, empty store: there is none at {url} yet.")
    caplog.clear()
    await (await open_sqlite(url)).close()
    await tell_of_new_store(url)
    assert caplog.messages == []
