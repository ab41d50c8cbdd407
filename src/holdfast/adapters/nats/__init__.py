"""Leases granted by NATS: who may try a run, decided by a bucket of JetStream's key-value store.

::

    NatsGrants ──▶ Bucket ──▶ Connection ──▶ Link to one server after the other     (a thread of its own)
        │  prefix.workers.<worker>.<incarnation>   its heartbeat; the server removes it after the lease
        │  prefix.runs.<run>                       who holds it: worker and incarnation; stays until it is removed
        └▶ Watch ──▶ runs whose key is gone, or whose incarnation is

A run is held while the heartbeat that its key names is there. So one message renews all runs of a worker, removing one
key releases them all, and a run of a worker that is gone is taken over by compare-and-set on its key.
"""

from holdfast.errors import StoreRefused
from holdfast.extras import lack_of

if _lack := lack_of("nats", "leases by NATS need", nats="nats-py"):
    raise StoreRefused(_lack)

import nats as _nats  # noqa: F401 # pyright: ignore[reportUnusedImport] - for the contract that NATS is spoken here only

from holdfast.adapters.nats.connection import Connection
from holdfast.adapters.nats.grants import NatsGrants

__all__ = ["Connection", "NatsGrants"]
