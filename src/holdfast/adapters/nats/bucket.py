"""A bucket of JetStream's key-value store: reads from its leader, writes by compare-and-set, keys that run out.

Spoken directly to JetStream's API: the library's `KeyValue` has no compare-and-set that gives a key a time to live.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from holdfast.adapters.nats.connection import Connection
from holdfast.adapters.nats.keys import is_ours
from holdfast.adapters.nats.link import headers_of
from holdfast.errors import StoreRefused, StoreUnavailable

MARKER_SECONDS: Final = 60
"""How long a removed or expired key leaves a marker, from which watchers learn of it."""

WRONG_REVISION: Final = {10071, 10164}
NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059
NO_JETSTREAM: Final = {10039, 10076}
_SECOND: Final = 1_000_000_000


class Problem(msgspec.Struct, frozen=True):
    """An error of JetStream's API."""

    code: int
    err_code: int = 0
    description: str = ""


class _Reply(msgspec.Struct, frozen=True):
    """The fields that all answers of the API share."""

    error: Problem | None = None
    seq: int = 0
    ts: datetime | None = None
    num_pending: int = 0


class _Stored(msgspec.Struct, frozen=True):
    seq: int
    time: datetime
    hdrs: bytes = b""
    data: bytes = b""


class _Found(msgspec.Struct, frozen=True):
    message: _Stored


class Replica(msgspec.Struct, frozen=True):
    """A follower of the bucket's stream."""

    name: str
    current: bool = False
    offline: bool = False


class Cluster(msgspec.Struct, frozen=True):
    """The servers that keep the bucket."""

    leader: str = ""
    replicas: tuple[Replica, ...] = ()


class Config(msgspec.Struct, frozen=True):
    """The settings of the bucket's stream that matter here."""

    num_replicas: int = 1
    allow_msg_ttl: bool = False
    allow_rollup_hdrs: bool = False
    subject_delete_marker_ttl: int = 0


class State(msgspec.Struct, frozen=True):
    """The contents of the bucket."""

    subjects: dict[str, int] = {}


class Condition(msgspec.Struct, frozen=True):
    """A bucket as its leader describes it."""

    config: Config
    state: State = State()
    cluster: Cluster = Cluster()
    ts: datetime | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key as it is now. A marker means that it was removed or expired."""

    key: str
    revision: int
    value: bytes
    is_marker: bool
    at: datetime | None = None


class Bucket:
    """See the module."""

    def __init__(self, connection: Connection, name: str, replicas: int) -> None:
        self.connection = connection
        self.name = name
        self.stream: str = f"KV_{name}"
        self._replicas = replicas
        self._base = f"$KV.{name}."
        self._offset = timedelta()
        self._making = asyncio.Lock()
        self.has_markers: bool = True

    # -- opening -------------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Raises `StoreRefused` unless JetStream answers and the bucket, if it exists, is not used by other
        software."""
        try:
            found = await self.look(">")
        except StoreUnavailable as error:
            raise StoreRefused(f"cannot use NATS for leases: {error}") from error
        if found is None:
            return
        if not (found.config.allow_msg_ttl and found.config.allow_rollup_hdrs):
            raise StoreRefused(
                f"cannot use NATS for leases: the bucket {self.name!r} is used by other software: its keys cannot "
                "expire. Name another one: [leases] bucket"
            )
        for key in found.state.subjects:
            if not is_ours(key.removeprefix(self._base)):
                raise StoreRefused(
                    f"cannot use NATS for leases: the bucket {self.name!r} is used by other software (the key "
                    f"{key.removeprefix(self._base)!r}). Name another one: [leases] bucket"
                )

    async def make(self) -> None:
        """Makes the bucket if it is missing. Raises `StoreRefused` if it cannot be made."""
        async with self._making:
            if await self.look("-") is not None:
                return
            if not (await self.connection.link(self.connection.patience)).server.get("api_lvl"):
                raise StoreRefused("cannot use NATS for leases: its keys cannot expire. Use NATS 2.11 or newer")
            wanted = {
                "name": self.stream,
                "description": "Leases of Holdfast",
                "subjects": [f"{self._base}>"],
                "max_msgs_per_subject": 1,
                "discard": "new",
                "storage": "file",
                "num_replicas": self._replicas,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "allow_msg_ttl": True,
                "subject_delete_marker_ttl": MARKER_SECONDS * _SECOND,
            }
            data = await self._ask(f"$JS.API.STREAM.CREATE.{self.stream}", wanted)
            problem = _reply(data).error
            if await self.look("-") is not None or problem is None:
                return
            raise StoreRefused(
                f"cannot use NATS for leases: the bucket {self.name!r} with {self._replicas} replicas cannot be made: "
                f"{problem.description}. Check [leases] replicas and the permissions of the user"
            )

    async def look(self, keys: str) -> Condition | None:
        """The bucket, with the keys that match; None if it does not exist."""
        data = await self._ask(f"$JS.API.STREAM.INFO.{self.stream}", {"subjects_filter": f"{self._base}{keys}"})
        problem = _reply(data).error
        if problem is not None and problem.err_code == NO_STREAM:
            return None
        self._refuse(problem)
        found = msgspec.json.decode(data, type=Condition)
        if found.ts is not None:
            self._offset = found.ts - _ticks()
        self.has_markers = found.config.subject_delete_marker_ttl > 0
        return found

    async def live_keys(self, keys: str) -> set[str]:
        """Keys that match, without expired ones and markers."""
        found = await self.look(keys)
        return set() if found is None else {key.removeprefix(self._base) for key in found.state.subjects}

    def now(self) -> datetime:
        """The server's time, by which keys expire."""
        return self._offset + _ticks()

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: bytes, *, last: int, ttl: int = 0) -> int:
        """Writes the key if its revision is `last` (0: missing). Returns the new revision, or 0 if the revision
        differs."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        if ttl:
            headers["Nats-TTL"] = f"{ttl}s"
        return await self._publish(key, value, headers)

    async def remove(self, key: str, *, last: int | None = None) -> int:
        """Removes the key if its revision is `last`. Returns the revision of the marker it leaves, or 0 if the revision
        differs."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub", "Nats-TTL": f"{MARKER_SECONDS}s"}
        if last is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(last)
        return await self._publish(key, b"", headers)

    async def get(self, key: str) -> Entry | None:
        """The key, which may be a marker; None if it is missing."""
        data = await self._ask(f"$JS.API.STREAM.MSG.GET.{self.stream}", {"last_by_subj": self._base + key})
        problem = _reply(data).error
        if problem is not None and problem.err_code in {NO_MESSAGE, NO_STREAM}:
            return None
        self._refuse(problem)
        found = msgspec.json.decode(data, type=_Found).message
        is_marker = b"KV-Operation:" in found.hdrs or b"Nats-Marker-Reason:" in found.hdrs
        return Entry(key, found.seq, found.data, is_marker, found.time)

    async def consume(self, keys: str, subject: str) -> int:
        """Has the matching keys sent to a subject, first as they are and then as they change, while something listens
        there. Returns how many keys there are."""
        config = {
            "deliver_subject": subject,
            "deliver_policy": "last_per_subject",
            "filter_subject": self._base + keys,
            "ack_policy": "none",
            "max_deliver": 1,
            "idle_heartbeat": _SECOND,
            "inactive_threshold": 5 * _SECOND,
            "mem_storage": True,
            "num_replicas": 1,
        }
        data = await self._ask(f"$JS.API.CONSUMER.CREATE.{self.stream}", {"stream_name": self.stream, "config": config})
        reply = _reply(data)
        self._refuse(reply.error)
        return reply.num_pending

    def entry_in(self, message: Any) -> Entry:
        """The entry that a consumer sent."""
        headers = headers_of(message)
        is_marker = "KV-Operation" in headers or "Nats-Marker-Reason" in headers
        key = message.subject.removeprefix(self._base)
        return Entry(key, message.metadata.sequence.stream, message.data, is_marker)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _publish(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        data = await self.connection.ask(self._base + key, value, headers, when_unheard=self._make_again)
        reply = _reply(data.data)
        if reply.error is not None and reply.error.err_code in WRONG_REVISION:
            return 0
        self._refuse(reply.error)
        return reply.seq

    async def _make_again(self) -> None:
        """Makes the bucket again. No server accepts our keys: the bucket has no leader, or the servers lost their
        data."""
        if not self._making.locked():
            try:
                await self.make()
            except StoreRefused as error:
                raise StoreUnavailable(str(error)) from error

    async def _ask(self, subject: str, request: object) -> bytes:
        payload = b"" if request is None else msgspec.json.encode(request)
        until = time.monotonic() + self.connection.patience
        while True:
            data = (await self.connection.ask(subject, payload)).data
            problem = _reply(data).error
            is_passing = problem is not None and problem.code == 503 and problem.err_code not in NO_JETSTREAM
            if not is_passing or time.monotonic() > until:
                return data
            await asyncio.sleep(0.1)

    def _refuse(self, problem: Problem | None) -> None:
        if problem is None:
            return
        advice = ". Enable JetStream" if problem.err_code in NO_JETSTREAM else ""
        raise StoreUnavailable(f"NATS at {', '.join(self.connection.addresses)}: {problem.description}{advice}")


def _reply(data: bytes) -> _Reply:
    try:
        return msgspec.json.decode(data, type=_Reply)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"NATS: the answer is not one of JetStream: {error}") from error


def _ticks() -> datetime:
    """A monotonic clock: only differences have a meaning."""
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=time.monotonic())
