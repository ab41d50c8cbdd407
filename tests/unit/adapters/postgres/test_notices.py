"""Notices: nothing that happens in a process, or to its connection, makes it deaf for good."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator

import pytest

from holdfast.adapters.postgres import notices as module
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.notices import Notices
from holdfast.errors import StoreUnavailable
from tests.support.postgres import new_schema, server_url

MOST_OF_SELECT = 1024


@pytest.fixture
def many_files() -> Iterator[None]:
    """So many files are open that every new one has a number beyond what `select` can take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MOST_OF_SELECT), hard))
    files = [os.open(os.devnull, os.O_RDONLY)]
    while files[-1] < MOST_OF_SELECT:
        files.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Hearing:
    """Two ends of one schema; `heard` rises when the second hears of the first, or begins to listen."""

    def __init__(self, dialler: Dialler | None = None) -> None:
        address = parse_address(server_url(new_schema()))
        self.heard = threading.Semaphore(0)
        self.sender = Notices(address, Dialler(address), lambda _: None, lambda _: None)
        self.hearer = Notices(address, dialler or Dialler(address), lambda _: self.heard.release(), lambda _: None)

    def passes(self) -> bool:
        """Whether what one end sends is heard at the other."""
        self.hearer.start()
        listens = self.heard.acquire(timeout=30)
        self.sender.send()
        return listens and self.heard.acquire(timeout=30)

    def close(self) -> None:
        self.sender.close()
        self.hearer.close()


@pytest.mark.usefixtures("many_files")
def test_a_process_with_thousands_of_open_files_hears() -> None:
    """Promise: whatever numbers its connections have."""
    hearing = Hearing()
    assert hearing.passes()
    hearing.close()


class Stumbling(Dialler):
    """Fails once with something that nobody thought of."""

    def dial(self, patience: float) -> TimedConnection:
        if self.attempts == 0:
            self.attempts = 1
            raise ValueError("what nobody thought of")
        return super().dial(patience)


def test_an_error_that_nobody_thought_of_is_not_the_end() -> None:
    """Promise: it is said, and listening begins again."""
    hearing = Hearing(Stumbling(parse_address(server_url())))
    assert hearing.passes()
    hearing.close()


class Slow(Dialler):
    """Dials until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(parse_address(server_url()))
        self.has_begun = threading.Event()
        self.is_enough = threading.Event()

    def dial(self, patience: float) -> TimedConnection:
        self.has_begun.set()
        self.is_enough.wait(30)
        raise StoreUnavailable("nobody is there")


def test_what_the_thread_still_uses_is_not_closed_behind_its_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: closed while it dials, it keeps its pipe until it is done: the numbers could be those of somebody else's
    files by then. Nothing stays open after it."""
    monkeypatch.setattr(module, "LONGEST_END", 0.01)
    dialler = Slow()
    closing = Notices(parse_address(server_url()), dialler, lambda _: None, lambda _: None)
    closing.start()
    assert dialler.has_begun.wait(30)
    pipe, thread = vars(closing)["_wake"], vars(closing)["_thread"]
    closing.close()
    for end in pipe:
        os.fstat(end)
    dialler.is_enough.set()
    thread.join(30)
    for end in pipe:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)
