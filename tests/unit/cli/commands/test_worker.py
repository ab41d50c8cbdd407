"""`holdfast worker`: what it says before it serves."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast.adapters.sqlite.store import open_sqlite
from holdfast.cli.commands.worker import next_address, numbered_id, tell_of_new_store
from holdfast.cli.supervisor import pause_before


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


@pytest.mark.parametrize(
    ("address", "number", "place"),
    [
        ("127.0.0.1:7070", 1, "127.0.0.1:7070"),
        ("7070", 3, "127.0.0.1:7072"),
        ("[::1]:7070", 2, "[::1]:7071"),
        ("127.0.0.1:0", 4, "127.0.0.1:0"),
    ],
)
def test_each_process_has_the_next_port(address: str, number: int, place: str) -> None:
    """Promise: the figures of every process can be read; port 0 is any free port for each."""
    assert next_address(address, number) == place


def test_supervised_processes_have_ids_of_their_own() -> None:
    """Promise: made from the given id, else from the host and the supervisor; the same after each restart."""
    assert [numbered_id("web", number) for number in (1, 2)] == ["web-1", "web-2"]
    assert numbered_id("", 2) == f"{{hostname}}-{os.getppid()}-2"


def test_restarts_wait_longer_and_longer() -> None:
    """Promise: half a second at first, doubled, at most half a minute."""
    assert [pause_before(ends) for ends in (1, 2, 3, 4, 7, 100)] == [0.5, 1, 2, 4, 30, 30]
