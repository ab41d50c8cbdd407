"""Leases granted by etcd: who may try a run, decided by a cluster that a fleet trusts already.

::

    EtcdGrants ──▶ Connection ──▶ one member after the other, TLS, login, bounded time     (threads of its own)
        │  prefix/runs/<run>            who holds it, attached to the worker's etcd lease
        │  prefix/heartbeats/<worker>   when it was last heard, attached to the same lease
        └▶ Watch ──▶ runs whose key is gone: released, revoked or expired

One etcd lease per worker instance: its heartbeat keeps all its keys, its end removes them all, at once and by itself.
Nothing here runs on the worker's event loop, so a busy loop never loses a lease.
"""

from holdfast.errors import StoreRefused
from holdfast.extras import lack_of

if _lack := lack_of("etcd", "leases by etcd need", aetcd="aetcd", grpc="grpcio"):
    raise StoreRefused(_lack)

import aetcd.rpc as _rpc  # noqa: F401 # pyright: ignore[reportMissingTypeStubs, reportUnusedImport] - for the contract
import grpc as _grpc  # noqa: F401 # pyright: ignore[reportUnusedImport] - that etcd is spoken here only

from holdfast.adapters.etcd.connection import Connection
from holdfast.adapters.etcd.grants import EtcdGrants

__all__ = ["Connection", "EtcdGrants"]
