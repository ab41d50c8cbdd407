"""Keys and values below the prefix, and the transactions over them. Pure: builds and reads messages, sends none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.adapters.etcd.connection import rpc
from holdfast.adapters.leases.values import Heard, decoded


class HeldRun(msgspec.Struct, frozen=True):
    """The value of a run's key."""

    worker: str
    acquired_at: datetime


class Keys:
    """The names of everything below one prefix."""

    def __init__(self, prefix: str) -> None:
        base = prefix.strip("/").encode()
        self.base: bytes = base + b"/"
        self.runs: bytes = base + b"/runs/"
        self.heartbeats: bytes = base + b"/heartbeats/"
        self.store: bytes = base + b"/store"

    def run(self, run: str) -> bytes:
        return self.runs + run.encode()

    def run_of(self, key: bytes) -> str:
        return key.removeprefix(self.runs).decode()

    def heartbeat(self, worker: str) -> bytes:
        return self.heartbeats + worker.encode()

    def worker_of(self, key: bytes) -> str:
        return key.removeprefix(self.heartbeats).decode()

    def is_ours(self, key: bytes) -> bool:
        """Whether a key below the prefix is one of these."""
        return key == self.store or key.startswith((self.runs, self.heartbeats))


def below(prefix: bytes, **options: Any) -> Any:
    """A request for all keys with that prefix."""
    return rpc.RangeRequest(key=prefix, range_end=prefix[:-1] + bytes([prefix[-1] + 1]), **options)


def acquire_all(keys: Sequence[bytes], value: bytes, lease: int) -> Any:
    """A transaction of transactions. Each puts a key that is missing, or reads the one that is there."""
    return rpc.TxnRequest(success=[rpc.RequestOp(request_txn=_acquire(key, value, lease)) for key in keys])


def _acquire(key: bytes, value: bytes, lease: int) -> Any:
    absent = rpc.Compare(target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, key=key, create_revision=0)
    return rpc.TxnRequest(
        compare=[absent],
        success=[rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value, lease=lease))],
        failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=key))],
    )


def put_once(key: bytes, value: bytes) -> Any:
    """Puts the key if it is missing."""
    return _acquire(key, value, 0)


def found_keys(answer: Any) -> list[Any]:
    """Of each transaction in `acquire_all`: None if it put the key, else the key that was there."""
    inner = [each.response_txn for each in answer.responses]
    return [None if txn.succeeded else txn.responses[0].response_range.kvs[0] for txn in inner]


def take_over_all(kvs: Sequence[Any], lease: int) -> Any:
    """A transaction of transactions. Each attaches a key to the lease, unless the key has changed since."""
    return rpc.TxnRequest(success=[rpc.RequestOp(request_txn=_take_over(kv, lease)) for kv in kvs])


def _take_over(kv: Any, lease: int) -> Any:
    put = rpc.RequestOp(request_put=rpc.PutRequest(key=kv.key, value=kv.value, lease=lease))
    return rpc.TxnRequest(compare=[_unchanged(kv)], success=[put])


def _unchanged(kv: Any) -> Any:
    return rpc.Compare(target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, key=kv.key, mod_revision=kv.mod_revision)


def release(key: bytes, lease: int) -> Any:
    """Deletes the key if it is attached to the lease, else reads it."""
    ours = rpc.Compare(target=rpc.Compare.LEASE, result=rpc.Compare.EQUAL, key=key, lease=lease)
    return rpc.TxnRequest(
        compare=[ours],
        success=[rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))],
        failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=key))],
    )


def delete_unchanged(kv: Any) -> Any:
    """Deletes the key, unless it has changed since."""
    gone = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=kv.key))
    return rpc.TxnRequest(compare=[_unchanged(kv)], success=[gone])


def read_both(keys: Keys) -> Any:
    """Reads all heartbeats and all runs at one revision."""
    wanted = [rpc.RequestOp(request_range=below(part)) for part in (keys.heartbeats, keys.runs)]
    return rpc.TxnRequest(success=wanted)


def held_in(kv: Any) -> HeldRun:
    """The holder of a run. Raises `StoreUnavailable` if other software wrote the value."""
    return decoded("etcd", kv.key, kv.value, HeldRun)


def heard_in(kv: Any) -> Heard:
    """When a worker was last heard. Raises `StoreUnavailable` if other software wrote the value."""
    return decoded("etcd", kv.key, kv.value, Heard)
