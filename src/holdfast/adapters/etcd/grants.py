"""Grants by etcd: a key per run, attached to the etcd lease of the worker that holds it.

Acquiring is a transaction on the key's create revision, so exactly one of any number of callers gets it, and the others
receive the key that was there. A lost answer does no harm: a key attached to our lease is ours. A key of this worker
that is attached to another lease belongs to an earlier instance of it, and is taken over.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from holdfast.adapters.etcd import keys as messages
from holdfast.adapters.etcd.connection import Connection, LeaseGone, rpc
from holdfast.adapters.etcd.keys import HeldRun, Keys, held_in
from holdfast.adapters.etcd.watch import Watch
from holdfast.adapters.leases.endpoints import Endpoints, patience_for
from holdfast.adapters.leases.known_workers import standing_of
from holdfast.adapters.leases.owner import check_owner, mark_text
from holdfast.adapters.leases.values import Heard, is_fresh, left_of, whole_seconds
from holdfast.adapters.system.clock import SystemClock
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import (
    Acquiring,
    Grant,
    GrantsCondition,
    Member,
    NotOwner,
    OwnedBy,
    Released,
    Releasing,
    Standing,
)

T = TypeVar("T")

AT_ONCE: Final = 100
"""Runs in one request: etcd takes 128 operations at most, and the nested ones count."""

THREADS: Final = 8


@dataclass(slots=True)
class _Lease:
    id: int
    seconds: int
    renewed: float
    """Monotonic time at which it was last renewed."""

    def left(self) -> timedelta:
        return left_of(self.renewed, self.seconds)


class EtcdGrants:
    """A `ports.grants.Grants` by etcd."""

    def __init__(
        self, endpoints: Endpoints, *, prefix: str = "holdfast", ttl: timedelta, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._prefix = prefix
        self._keys = Keys(prefix)
        self._connection = Connection(endpoints, patience=patience_for(ttl.total_seconds()))
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-etcd")
        self._leases: dict[str, _Lease] = {}
        self._lock = threading.Lock()
        self._known: set[str] = set()

    async def open(self, mark: int | None = None) -> None:
        """Raises `StoreRefused` if the cluster cannot be used, or if something else uses the prefix (also a store with
        another `mark`)."""
        await self._in_thread(self._open, mark)

    def _open(self, mark: int | None) -> None:
        answer = self._connection.check(messages.below(self._keys.base, keys_only=True, limit=1000))
        for kv in answer.kvs:
            if not self._keys.is_ours(kv.key):
                raise StoreRefused(
                    f"cannot use etcd for leases: the prefix {self._keys.base.decode()!r} is used by other software "
                    f"(the key {kv.key.decode(errors='replace')!r}). Choose another one: [leases] prefix"
                )
        self._check_owner(mark)

    def _check_owner(self, mark: int | None) -> None:
        found = self._connection.call("KVStub", "Range", rpc.RangeRequest(key=self._keys.store)).kvs
        check_owner("etcd", self._prefix, found[0].value if found else None, mark)

    async def own(self, mark: int) -> None:
        """Claims the prefix for the store with that mark. Raises `StoreRefused` if it belongs to another."""
        await self._in_thread(self._own, mark)

    def _own(self, mark: int) -> None:
        self._connection.call("KVStub", "Txn", messages.put_once(self._keys.store, mark_text(mark)))
        self._check_owner(mark)

    async def close(self) -> None:
        """See `ports.grants`."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, verb: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, verb, *arguments)

    # -- acquiring -----------------------------------------------------------------------------------------------------

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """See `ports.grants`."""
        return (await self.acquire_many([run], worker, ttl))[run]

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """See `ports.grants`. One request per hundred runs."""
        parts = [runs[first : first + AT_ONCE] for first in range(0, len(runs), AT_ONCE)]
        answers = await asyncio.gather(*(self._in_thread(self._acquire, part, worker, ttl) for part in parts))
        return {run: answer for part in answers for run, answer in part.items()}

    def _acquire(self, runs: Sequence[str], worker: str, ttl: timedelta) -> dict[str, Acquiring]:
        return self._with_lease(worker, ttl, lambda lease: self._acquire_with(lease, runs, worker))

    def _acquire_with(self, lease: _Lease, runs: Sequence[str], worker: str) -> dict[str, Acquiring]:
        now = self._clock.now()
        value = msgspec.json.encode(HeldRun(worker, now))
        request = messages.acquire_all([self._keys.run(run) for run in runs], value, lease.id)
        found = messages.found_keys(self._connection.call("KVStub", "Txn", request))
        met = {run: kv for run, kv in zip(runs, found, strict=True) if kv is not None}
        expiries = self._expiries(kv.lease for kv in met.values() if held_in(kv).worker != worker)
        answers: dict[str, Acquiring] = {}
        earlier: dict[str, Any] = {}
        for run in runs:
            kv = met.get(run)
            held = None if kv is None else held_in(kv)
            if held is None or kv is None:
                answers[run] = Grant(run, worker, now, now + lease.left())
            elif held.worker != worker:
                answers[run] = OwnedBy(held.worker, expiries[kv.lease])
            elif kv.lease == lease.id:
                answers[run] = Grant(run, worker, held.acquired_at, now + lease.left())
            else:
                earlier[run] = kv
        if earlier:
            answers |= self._take_over(lease, earlier, worker)
        return {run: answers[run] for run in runs}

    def _take_over(self, lease: _Lease, earlier: Mapping[str, Any], worker: str) -> dict[str, Acquiring]:
        """Attaches runs of an earlier instance of this worker to our lease, and asks again for those that changed in
        this very moment."""
        request = messages.take_over_all(list(earlier.values()), lease.id)
        found = self._connection.call("KVStub", "Txn", request).responses
        is_taken = {run: each.response_txn.succeeded for run, each in zip(earlier, found, strict=True)}
        until = self._clock.now() + lease.left()
        answers: dict[str, Acquiring] = {
            run: Grant(run, worker, held_in(kv).acquired_at, until) for run, kv in earlier.items() if is_taken[run]
        }
        changed = [run for run in earlier if not is_taken[run]]
        return answers | self._acquire_with(lease, changed, worker) if changed else answers

    def _expiries(self, leases: Iterable[int]) -> dict[int, datetime]:
        """When these leases expire according to etcd, in whole seconds, rounded down."""
        found: dict[int, datetime] = {}
        for lease in set(leases):
            answer = self._connection.call("LeaseStub", "LeaseTimeToLive", rpc.LeaseTimeToLiveRequest(ID=lease))
            found[lease] = self._clock.now() + timedelta(seconds=max(int(answer.TTL), 0))
        return found

    # -- the lease of a worker -----------------------------------------------------------------------------------------

    def _with_lease(self, worker: str, ttl: timedelta, verb: Callable[[_Lease], T]) -> T:
        """Calls the verb with the worker's lease, which it makes or renews first if necessary."""
        for _ in range(3):
            lease = self._lease(worker, ttl)
            try:
                return verb(lease)
            except LeaseGone:
                self._forget(worker, lease)
        raise StoreUnavailable("etcd expires the lease of this worker as soon as it is made")

    def _lease(self, worker: str, ttl: timedelta, *, is_beat: bool = False) -> _Lease:
        with self._lock:
            lease = self._leases.get(worker)
            if lease is None:
                seconds = whole_seconds(ttl)
                began = time.monotonic()
                answer = self._connection.call("LeaseStub", "LeaseGrant", rpc.LeaseGrantRequest(TTL=seconds))
                lease = self._leases[worker] = _Lease(int(answer.ID), int(answer.TTL), began)
                return lease
        if is_beat or not is_fresh(lease.renewed, lease.seconds):
            began = time.monotonic()
            try:
                self._connection.keep_alive(lease.id)
            except LeaseGone:
                self._forget(worker, lease)
                return self._lease(worker, ttl)
            lease.renewed = began
        return lease

    def _forget(self, worker: str, lease: _Lease) -> None:
        with self._lock:
            if self._leases.get(worker) is lease:
                del self._leases[worker]

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """See `ports.grants`."""
        self._lease(worker, ttl, is_beat=True)

        def beat(lease: _Lease) -> None:
            value = msgspec.json.encode(Heard(self._clock.now(), float(lease.seconds)))
            request = rpc.PutRequest(key=self._keys.heartbeat(worker), value=value, lease=lease.id)
            self._connection.call("KVStub", "Put", request)

        self._with_lease(worker, ttl, beat)

    # -- releasing -----------------------------------------------------------------------------------------------------

    async def release(self, run: str, worker: str) -> Releasing:
        """See `ports.grants`."""
        return await self._in_thread(self._release, run, worker)

    def _release(self, run: str, worker: str) -> Releasing:
        lease = self._leases.get(worker)
        request = messages.release(self._keys.run(run), -1 if lease is None else lease.id)
        while True:
            answer = self._connection.call("KVStub", "Txn", request)
            if answer.succeeded or not answer.responses[0].response_range.kvs:
                return Released()
            kv = answer.responses[0].response_range.kvs[0]
            holder = held_in(kv).worker
            if holder != worker:
                return NotOwner(holder)
            if self._connection.call("KVStub", "Txn", messages.delete_unchanged(kv)).succeeded:
                return Released()

    async def release_all(self, worker: str) -> Sequence[str]:
        """See `ports.grants`. Revokes the lease, which removes its keys."""
        return await self._in_thread(self._release_all, worker)

    def _release_all(self, worker: str) -> list[str]:
        with self._lock:
            lease = self._leases.pop(worker, None)
        if lease is None:
            return []
        try:
            wanted = rpc.LeaseTimeToLiveRequest(ID=lease.id, keys=True)
            attached = self._connection.call("LeaseStub", "LeaseTimeToLive", wanted).keys
            self._connection.call("LeaseStub", "LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease.id))
        except LeaseGone:
            return []
        return [self._keys.run_of(key) for key in attached if key.startswith(self._keys.runs)]

    # -- looking -------------------------------------------------------------------------------------------------------

    async def get(self, run: str) -> Grant | None:
        """See `ports.grants`."""
        return await self._in_thread(self._get, run)

    def _get(self, run: str) -> Grant | None:
        found = self._connection.call("KVStub", "Range", rpc.RangeRequest(key=self._keys.run(run))).kvs
        if not found:
            return None
        held = held_in(found[0])
        return Grant(run, held.worker, held.acquired_at, self._expiries([found[0].lease])[found[0].lease])

    async def workers(self) -> Sequence[Standing]:
        """See `ports.grants`. A worker's heartbeat goes with its lease, so one that is listed lives."""
        heard, held = await self._in_thread(self._read_both)
        return standing_of({worker: one.seen_at for worker, one in heard.items()}, held)

    async def holders(self) -> Mapping[str, str]:
        """See `ports.grants`."""
        return (await self._in_thread(self._read_both))[1]

    def _read_both(self) -> tuple[dict[str, Heard], dict[str, str]]:
        answer = self._connection.call("KVStub", "Txn", messages.read_both(self._keys))
        heartbeats, runs = (each.response_range.kvs for each in answer.responses)
        heard = {self._keys.worker_of(kv.key): messages.heard_in(kv) for kv in heartbeats}
        return heard, {self._keys.run_of(kv.key): held_in(kv).worker for kv in runs}

    def orphans(self) -> AsyncIterator[str]:
        """See `ports.grants`."""
        return Watch(self._connection, self._keys, self._known).runs()

    async def condition(self) -> GrantsCondition:
        """See `ports.grants`."""
        return await self._in_thread(self._condition)

    def _condition(self) -> GrantsCondition:
        members: list[Member] = []
        for number, address in enumerate(self._connection.addresses):
            try:
                status = self._connection.status(number)
            except StoreUnavailable as error:
                members.append(Member(address, "", str(error)))
                continue
            is_leader = status.leader == status.header.member_id
            role = f"etcd {status.version}, {'leader' if is_leader else 'follower'}"
            members.append(Member(address, role, "" if status.leader else "it has no leader: there is no quorum"))
        return GrantsCondition("etcd", tuple(members))
