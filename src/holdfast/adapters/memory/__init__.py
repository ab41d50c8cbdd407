"""A store in memory and a clock moved by hand: the obvious model of the ports, which other stores are compared with.

::

    store.py        the ports: takes the lock, opens a transaction, tells listeners afterwards
    transaction.py  what one write does, in plain steps
    listing.py      filters, order and cursors
    tables.py       dicts
    clock.py        virtual time
"""

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore

__all__ = ["MemoryStore", "VirtualClock"]
