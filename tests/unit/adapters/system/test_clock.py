"""The clocks and processes of this host, which leases rest on."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC

from holdfast.adapters.system.clock import SystemClock
from holdfast.adapters.system.process import is_gone, process_mark


def test_wall_time_is_aware() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_the_boot_is_the_same_for_every_process() -> None:
    """Contract: another process reads the same boot id, and a later second of it."""
    boot, second = SystemClock().boot()
    code = "from holdfast.adapters.system.clock import SystemClock; print(*SystemClock().boot())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    other, later = answer.rsplit(maxsplit=1)
    assert other == boot
    assert float(later) >= second > 0


def test_a_live_process_is_not_gone() -> None:
    assert not is_gone(os.getpid(), process_mark(os.getpid()))
    assert not is_gone(os.getpid(), "")


def test_an_ended_process_is_gone() -> None:
    """Contract: also before its parent has taken notice of its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mark = process_mark(process.pid)
        assert not is_gone(process.pid, mark)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie: ended, and not yet reaped
        assert is_gone(process.pid, mark)
    assert is_gone(process.pid, mark)
    assert process_mark(process.pid) == ""


def test_a_reused_pid_is_another_process() -> None:
    namespace, _, start = process_mark(os.getpid()).rpartition(":")
    assert is_gone(os.getpid(), f"{namespace}:{int(start) - 1}")


def test_a_pid_of_another_namespace_says_nothing() -> None:
    """Contract: a container's pid 7 is not ours, so its absence here is no proof."""
    assert not is_gone(2**22 + 1, "pid:[1]:123")
