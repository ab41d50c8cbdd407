"""Leases granted by etcd: who may try a run, decided by a cluster that a fleet trusts already.

::

    EtcdGrants ──▶ Connection ──▶ one member after the other, TLS, login, bounded time     (threads of its own)
        │  prefix/runs/<run>            who holds it, attached to the worker's etcd lease
        │  prefix/heartbeats/<worker>   when it was last heard, attached to the same lease
        └▶ Watch ──▶ runs whose key went away: released, revoked or expired

One etcd lease per worker instance: its heartbeat keeps all its keys, its end removes them all, at once and by itself.
Nothing here runs on the worker's event loop, so a busy loop costs no lease.
"""

try:
    import aetcd.rpc as _  # noqa: F401 # pyright: ignore[reportMissingTypeStubs] - is the extra there?
    import grpc as _grpc  # noqa: F401 # pyright: ignore[reportUnusedImport]
except ImportError as _missing:  # pragma: no cover - the tests have it
    from holdfast.errors import StoreRefused
    from holdfast.extras import install_command

    raise StoreRefused(
        f"leases by etcd need aetcd and grpcio, which are not installed. Install them: {install_command('etcd')}"
    ) from _missing

from holdfast.adapters.etcd.connection import Connection, Endpoints
from holdfast.adapters.etcd.grants import EtcdGrants

__all__ = ["Connection", "Endpoints", "EtcdGrants"]
