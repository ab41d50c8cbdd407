"""Whether a process is still there, told by its mark."""

from __future__ import annotations

import os
import subprocess
import sys

from holdfast.adapters.system.process import is_gone, process_mark


def test_the_process_that_asks_is_there() -> None:
    """Contract: its own mark is the same each time; a mark of another beginning is of a process that is gone."""
    mark = process_mark(os.getpid())
    assert process_mark(os.getpid()) == mark
    assert not is_gone(os.getpid(), mark)
    assert is_gone(os.getpid(), f"{mark}0")


def test_another_process_is_asked_for_each_time() -> None:
    """Contract: what was true of another process a moment ago is not taken for true now."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mark = process_mark(other.pid)
        assert mark != process_mark(os.getpid())
        assert not is_gone(other.pid, mark)
    assert is_gone(other.pid, mark)
