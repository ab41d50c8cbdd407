"""Runs a program in a user namespace, where root has another number: `python in_namespace.py [PROGRAM ARGUMENT …]`.

A process of its own with one thread: no process with more may enter a namespace, and a library with threads may start
them again in a forked child. Without a program it only tries. Imports nothing of ours: it runs without a path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
NOBODY = 65534


def main(words: list[str]) -> None:
    """The same user under another number, and never outliving its starter."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespaces here")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} 0 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} 0 1", encoding="ascii")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if words:
        os.execv(words[0], words)  # noqa: S606 - a program of the test's own


if __name__ == "__main__":
    main(sys.argv[1:])
