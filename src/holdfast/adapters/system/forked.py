"""What a forked child inherits and must never touch: connections, and event loops whose threads stayed in the parent.

Anything that is closed in the child, even by the garbage collector or at exit, is closed on the parent's sockets and
files too. So the child leaks these objects and never destroys them.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from holdfast.errors import StoreRefused

_owners: WeakSet[object] = WeakSet()


def belongs_to_this_process(owner: object) -> None:
    """Makes forked children leak their copy of the owner."""
    _owners.add(owner)


def leak(owner: object) -> None:
    """Keeps an object, and all that it refers to, from ever being destroyed."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def refuse_private(url: str, parent: int) -> None:
    """Refuses a store that lives in the memory of the parent process: the child would find an empty one."""
    if url.startswith("memory:") or ":memory:" in url:
        raise StoreRefused(
            f"the store {url} lives in process {parent}, which forked this one ({os.getpid()}), and cannot be seen "
            "here. Use a store that processes can share, such as sqlite:///path.db, or open it only in the child."
        )


def _leak_all() -> None:
    for owner in list(_owners):
        leak(owner)
    _owners.clear()


os.register_at_fork(after_in_child=_leak_all)
