"""Runs that could not be taken on wait longer each time."""

from __future__ import annotations

import pytest

from holdfast.engine import claim_backoff
from holdfast.engine.claim_backoff import PutOffs


def test_each_time_takes_twice_as_long() -> None:
    """Promise: a worker that lacks a component does not claim and give back its runs every few seconds forever; once
    one was taken on, it counts from the beginning."""
    waits = PutOffs()
    assert [waits.next("r").total_seconds() for _ in range(9)] == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert waits.next("other").total_seconds() == 5
    waits.forget("r")
    assert waits.next("r").total_seconds() == 5


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: of runs that others took on since, nothing piles up; who comes again soon is remembered longest."""
    monkeypatch.setattr(claim_backoff, "REMEMBERED", 2)
    waits = PutOffs()
    for run in ("a", "b", "a", "c"):
        waits.next(run)
    assert [waits.next(run).total_seconds() for run in ("a", "b")] == [20, 5]
