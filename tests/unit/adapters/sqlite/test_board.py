"""The board of a store's file: who has waited longest asks soonest, and nobody needs the board to be right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.sqlite.board import LONGEST, SHORTEST, SUFFIX, Board, pause_at

USUAL = st.floats(0.001, 0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.touch(0o600)
    return path


@given(st.integers(0, 200), USUAL)
def test_who_has_waited_longer_asks_sooner(place: int, usual: float) -> None:
    assert SHORTEST <= pause_at(place, usual) <= pause_at(place + 1, usual) <= LONGEST


@given(st.integers(1, 50), USUAL)
def test_a_crowd_asks_a_few_times_for_each_write(size: int, usual: float) -> None:
    """Promise: however many wait, and however long a write takes, they ask fewer than 20 times for it, together."""
    assert sum(usual / pause_at(place, usual) for place in range(size)) < 20


def test_a_lone_connection_finds_the_board_empty(path: Path) -> None:
    board = Board(path)
    assert board.is_empty()
    board.enter()
    assert board.pause() == pause_at(0, 0.001)
    board.leave()
    assert board.is_empty()
    board.close()


def test_connections_wait_in_the_order_they_came(path: Path) -> None:
    """Promise: each counts those that came before it, and moves up when they leave."""
    waiting = [Board(path) for _ in range(5)]
    for board in waiting:
        board.enter()
    assert [board.pause() for board in waiting] == [pause_at(place, 0.001) for place in range(5)]
    assert not Board(path).is_empty()
    waiting.pop(1).leave()
    waiting.pop(0).leave()
    assert [board.pause() for board in waiting] == [pause_at(place, 0.001) for place in range(3)]
    for board in waiting:
        board.leave()
    assert Board(path).is_empty()


@pytest.fixture
def ended() -> int:
    """The number of a process that is no longer there."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_nobody_waits_for_a_process_that_has_ended(path: Path, monkeypatch: pytest.MonkeyPatch, ended: int) -> None:
    """Promise: the note of a killed process is passed over a tenth of a second later; that of a live one counts."""
    now = 1_000_000_000_000
    monkeypatch.setattr("time.monotonic_ns", lambda: now)
    with monkeypatch.context() as killed:
        killed.setattr("os.getpid", lambda: ended)
        Board(path).enter()
    Board(path).enter()  # of this process
    now += 99_000_000
    board = Board(path)
    board.enter()
    assert board.pause() == pause_at(2, 0.001)
    now += 2_000_000
    assert board.pause() == pause_at(1, 0.001)


def test_a_number_of_another_container_is_not_looked_up(
    path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    """Promise: there the process may be alive, so its note counts."""
    now = 1_000_000_000_000
    monkeypatch.setattr("time.monotonic_ns", lambda: now)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("os.getpid", lambda: ended)
        elsewhere.setattr("holdfast.adapters.sqlite.board._home", lambda: 7)
        Board(path).enter()
    now += 1_000_000_000
    assert not Board(path).is_empty()


def test_what_never_leaves_is_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the note of a stopped process counts for as long as a write may wait, and then no more."""
    now = 1_000_000_000_000
    monkeypatch.setattr("time.monotonic_ns", lambda: now)
    Board(path).enter()  # and never leaves
    now += 9_000_000_000
    assert not Board(path).is_empty()
    now += 2_000_000_000
    assert Board(path).is_empty()


def test_notes_of_another_boot_do_not_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic_ns", lambda: 1_000_000_000_000)
    Board(path).enter()
    monkeypatch.setattr("time.monotonic_ns", lambda: 5_000_000_000)
    assert Board(path).is_empty()


def test_more_wait_than_the_board_holds(path: Path) -> None:
    """Promise: one without a place counts the others all the same."""
    waiting = [Board(path) for _ in range(130)]
    for board in waiting:
        board.enter()
    assert waiting[-1].pause() == LONGEST
    for board in waiting:
        board.leave()
        board.close()
    assert Board(path).is_empty()


def test_a_board_that_cannot_be_made_is_empty(path: Path) -> None:
    (path.parent / f"{path.name}{SUFFIX}").mkdir()
    board = Board(path)
    board.enter()
    assert board.is_empty()
    assert board.pause() == pause_at(0, 0.001)
    board.leave()


@pytest.mark.parametrize("content", [b"", b"x" * 10, bytes(range(256)) * 4, b"\xff" * 4096])
def test_foreign_bytes_do_no_harm(path: Path, content: bytes) -> None:
    (path.parent / f"{path.name}{SUFFIX}").write_bytes(content)
    board = Board(path)
    board.enter()
    assert SHORTEST <= board.pause() <= LONGEST
    board.leave()


def test_the_board_is_for_the_users_of_the_store(path: Path) -> None:
    """Promise: whoever may write the store may write its board."""
    path.chmod(0o660)
    Board(path).is_empty()
    assert (path.parent / f"{path.name}{SUFFIX}").stat().st_mode & 0o777 == 0o660
