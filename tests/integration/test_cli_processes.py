"""`holdfast worker --processes N` in real processes: they come back, and they go together."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.cli_app_processes import PATIENCE, Place, Process


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def supervised(place: Place, *arguments: str, processes: int = 2) -> Iterator[Process]:
    """A supervisor whose processes all serve. Their lease is long: nothing is taken over by time."""
    words = ("worker", "cli_app:app", "-p", str(processes), "--id", "w", "--ttl", "10m", "--poll", "100ms", *arguments)
    with place.process(*words) as process:
        for number in range(1, processes + 1):
            process.line(f"worker w-{number}: serving")
        try:
            yield process
        except BaseException:
            for pid in (process.pid, *pids(process)):  # the supervisor first: it starts nothing again
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise


def pids(process: Process) -> list[int]:
    """The processes that were started, in order."""
    found = (re.search(r"worker process \d+ started .*pid=(\d+)", line) for line in process.lines)
    return [int(match[1]) for match in found if match]


def is_gone(pid: int) -> bool:
    """Whether the process ends."""
    try:
        number = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([number], [], [], PATIENCE)[0])
    finally:
        os.close(number)


async def test_a_killed_process_comes_back_under_its_id_and_frees_its_run(place: Place) -> None:
    """Promise: the supervisor starts another one, and the run continues at once in one of the processes, although the
    lease is long."""
    place.start("handed_over", "release=go", "--id", "r")
    with supervised(place) as process:
        begun = process.line("run r: step slow started")
        holder = re.search(r"worker=w-(\d)", begun)
        assert holder
        killed = pids(process)[int(holder[1]) - 1]
        os.kill(killed, signal.SIGKILL)
        process.line(f"worker process {holder[1]} ended by SIGKILL; starting it again in 500 ms")
        (place.folder / "go").touch()
        process.line(f"worker w-{holder[1]}: 1 run(s) of its earlier instance are free")
        process.line("run r: completed", "epoch=2")
        async with place.app() as app:
            assert await (await app.get("r")).result(PATIENCE) in {*pids(process)} - {killed}
        process.send(signal.SIGTERM)
        assert process.code() == 0


def test_one_sigterm_stops_all_of_them_once(place: Place) -> None:
    """Promise: bodies in flight end first, also when a service manager signals every process of its group, which no
    worker takes for impatience."""
    place.start("handed_over", "release=go", "--id", "r")
    with supervised(place) as process:
        process.line("run r: step slow started")
        process.send(signal.SIGTERM)
        for number in (1, 2):
            process.line(f"worker w-{number}: stopping")
        for pid in pids(process):
            os.kill(pid, 0)
        (place.folder / "go").touch()
        process.line("run r: released")
        assert process.code() == 0
        assert not [line for line in process.lines if "again" in line or "killed" in line]
        assert all(is_gone(pid) for pid in pids(process))


def test_a_manager_that_signals_everybody_does_not_cut_bodies_short(place: Place) -> None:
    """Promise: the supervisor's request after a process's own SIGTERM is not its second signal."""
    place.start("handed_over", "release=go", "--id", "r")
    with supervised(place) as process:
        process.line("run r: step slow started")
        for pid in (*pids(process), process.pid):
            os.kill(pid, signal.SIGTERM)
        process.line("stopping 2 workers (SIGTERM)")
        (place.folder / "go").touch()
        process.line("run r: released")
        assert process.code() == 0
        assert not [line for line in process.lines if "exiting now" in line]


def test_a_second_signal_ends_all_of_them_now(place: Place) -> None:
    """Promise: nothing waits for bodies any more, and nothing stays behind."""
    place.start("handed_over", "release=never", "--id", "r")
    with supervised(place) as process:
        process.line("run r: step slow started")
        process.interrupt()
        process.line("stopping 2 workers (SIGINT)")
        process.interrupt()
        assert process.code() == 130
        assert all(is_gone(pid) for pid in pids(process))


def test_processes_stop_when_their_supervisor_is_killed(place: Place) -> None:
    """Promise: no worker stays behind that nothing supervises; it stops gracefully."""
    place.start("handed_over", "release=go", "--id", "r")
    with supervised(place) as process:
        process.line("run r: step slow started")
        process.send(signal.SIGKILL)
        for number in (1, 2):
            process.line(f"worker w-{number}: stopping (the supervisor is gone)")
        (place.folder / "go").touch()
        process.line("run r: released")
        assert process.code() == -signal.SIGKILL
        assert all(is_gone(pid) for pid in pids(process))


def test_a_mistake_is_said_once(place: Place) -> None:
    """Promise: an app that cannot be served ends the supervisor, instead of being tried forever in every process."""
    answer = place.run("worker", "cli_app:missing", "--processes", "4")
    assert answer.returncode == 1
    errors = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "has no 'missing'" in errors[0]


def test_an_address_without_room_for_all_is_refused_first(place: Place) -> None:
    """Promise: the fourth port of four is checked before anything starts."""
    answer = place.run("worker", "cli_app:app", "-p", "4", "--http", "127.0.0.1:65533")
    assert answer.returncode == 1
    assert "worker process 4 would need port 65536" in " ".join(answer.stderr.split())
    assert "started" not in answer.stderr


def test_processes_need_a_store_that_they_share(place: Place) -> None:
    """Promise: a store in memory would be a different one in each process."""
    answer = place.run("worker", "cli_app:app", "-p", "2", HOLDFAST_URL="memory://")
    assert answer.returncode == 1
    assert "lives in the memory of one process" in " ".join(answer.stderr.split())
