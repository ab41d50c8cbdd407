"""Checkpoints that fail: counted, and told when they work again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import apsw

from holdfast import facts
from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.link import Link


class BadDisk:
    """A connection whose checkpoints fail a few times."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    def set_wal_hook(self, _: Any) -> None: ...

    def wal_checkpoint(self, **_: Any) -> None:
        self._failures -= 1
        if self._failures >= 0:
            raise apsw.IOError("disk I/O error")


def test_failing_checkpoints_are_counted(tmp_path: Path) -> None:
    """Promise: each is told with how many failed in a row, so that the log shows one traceback; then the return is."""
    told: list[facts.Fact] = []
    link = Link(lambda: cast("apsw.Connection", BadDisk(3)), Board(tmp_path / "store.db"), told.append)
    for _ in range(5):
        link.checkpoint()
    failed = [x.failures for x in told if isinstance(x, facts.CheckpointFailed)]
    assert (failed, told[3:]) == ([1, 2, 3], [facts.CheckpointWorks(3)])
