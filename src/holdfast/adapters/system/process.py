"""Tells whether a process still exists, without being misled by a reused pid, a zombie or a pid of another
container.

A *mark* tells one process from a later one of the same number: its pid namespace and its start time. On systems without
/proc the mark is empty and only the pid counts.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

_STATE, _START_TIME = 0, 19  # fields of /proc/<pid>/stat counted after the parenthesised name


def process_mark(pid: int) -> str:
    """What distinguishes this process from later ones with its pid; empty if unknown."""
    fields = _stat(pid)
    return f"{_pid_namespace()}:{fields[_START_TIME]}" if fields else ""


def is_gone(pid: int, mark: str) -> bool:
    """Whether the process of that pid and mark has certainly ended. In doubt: False."""
    namespace, _, start = mark.rpartition(":")
    if namespace and namespace != _pid_namespace():
        return False  # the number means another process here
    fields = _stat(pid)
    if fields:
        return fields[_STATE] in "ZX" or (start != "" and fields[_START_TIME] != start)
    return is_unused(pid)


def is_unused(pid: int) -> bool:
    """Whether no process has this pid: cheaper than `is_gone`, and blind to a zombie and to a reused number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _stat(pid: int) -> list[str]:
    return _own_stat(pid) if pid == os.getpid() else _read_stat(pid)


@functools.lru_cache(maxsize=1)
def _own_stat(pid: int) -> list[str]:
    """The stat of this process, read once because reading it is slow."""
    return _read_stat(pid)


os.register_at_fork(after_in_child=_own_stat.cache_clear)  # in another namespace it may have the same number


def _read_stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
