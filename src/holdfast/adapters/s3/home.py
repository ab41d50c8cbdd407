"""A bucket, or a part of one, as a home for blobs, through obstore.

An object is `prefix/<sha-256>/<second>`: the bytes of that name, as stored in that second of the store's clock. Storing
a blob writes a new object, whatever else is there. Removing takes objects from before the time it is given, which is at
least an hour ago (`adapters.blobs.housed_store.UNHEARD`). An old object stays old: unlike a file that is stored again,
it cannot become young between the check and its removal. So nothing has to be asked or marked first, and no removal can
race with a writer. A reader takes the newest object whose bytes have the name's hash; a sweep leaves one.

S3 acknowledges a write when it is durable, and every reader sees it from then on.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from holdfast.adapters.blobs.label import LABEL, Label, check_mark, decode_label, encode_label, mark_for, new_label
from holdfast.adapters.s3.address import S3Address
from holdfast.adapters.s3.credentials import found_settings
from holdfast.adapters.s3.problems import is_of_wrong_clock, sentence
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.plurals import counted
from holdfast.errors import BlobNotFound, CorruptJournal, StoreError, StoreRefused, StoreUnavailable
from holdfast.ports.blob_home import OldBlobs
from holdfast.ports.facts import StoreTrouble
from holdfast.ports.telemetry import Tell

if TYPE_CHECKING:
    from obstore.store import S3Config

T = TypeVar("T")

RELIED_ON: Final = 1800
"""Seconds for which a process does not store the same blob again: half of the time in which the store must hear of
it."""

REMEMBERED: Final = 10_000
"""How many stored blobs a process remembers."""

PART: Final = 8 * 1024 * 1024
"""Size in bytes above which an object is sent in parts, each with its own retries."""

AT_ONCE: Final = 16
"""Maximum number of concurrent requests."""

CHECKED: Final = 60.0
"""Seconds for which a label is not read again. A bucket cannot be unmounted; if it is deleted, requests fail."""

PATIENCE: Final = timedelta(seconds=30)
"""How long one request is retried before it fails."""

_NAME = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"([0-9a-f]{64})/([0-9]{10})")


class S3Home:
    """A `ports.blob_home.BlobHome` in S3."""

    def __init__(self, address: S3Address, environ: Mapping[str, str] | None = None, tell: Tell | None = None) -> None:
        self._address = address
        self._tell = tell or logged().tell
        self._store = _connect(address, os.environ if environ is None else environ)
        self._mark = 0
        self._seen_at = 0.0
        self._is_versioned = False
        self._sent: dict[str, int] = {}
        """The second in which this process last stored each blob."""
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def address(self) -> str:
        """See `ports.blob_home`."""
        return str(self._address)

    # -- whose it is ---------------------------------------------------------------------------------------------------

    async def own(self, url: str) -> int:
        """See `ports.blob_home`."""
        try:
            label = await self._label()
            if label is None:
                await self._write_label(new_label(url))
                label = await self._label() or Label(0, "")
        except StoreUnavailable as error:
            raise StoreRefused(f"cannot keep blobs in {self.address}: {error}") from error
        return mark_for(url, label, self.address, "prefix")

    async def _write_label(self, label: Label) -> None:
        """Writes the label, unless another process was faster; then that label stays."""

        async def write() -> None:
            try:
                await self._store.put_async(LABEL, encode_label(label), mode="create", use_multipart=False)
            except AlreadyExistsError:
                return

        await self._asked("the label cannot be written", write)

    async def _label(self) -> Label | None:
        async def read() -> Label | None:
            try:
                found = await self._store.get_async(LABEL)
            except FileNotFoundError as error:
                if _is_bucket_missing(error):
                    raise
                return None
            self._note_version(found.meta.get("version"))
            return decode_label(bytes(await found.bytes_async()))

        return await self._asked("the label cannot be read", read)

    async def open(self, mark: int) -> None:
        """See `ports.blob_home`."""
        self._mark, self._seen_at = mark, 0.0
        try:
            await self.check()
        except StoreUnavailable as error:
            raise StoreRefused(f"cannot keep blobs in {self.address}: {error}") from error

    async def check(self) -> None:
        """See `ports.blob_home`."""
        if self._mark:
            check_mark(self._mark, await self._label(), self.address, "Are bucket, prefix and endpoint right?")
        self._seen_at = time.monotonic()

    # -- versions ------------------------------------------------------------------------------------------------------

    def _note_version(self, version: str | None) -> None:
        """Notes whether S3 reports a version for an object. Objects from before the bucket kept versions have none, so
        an object without one proves nothing. Logged once."""
        if self._is_versioned or version in {None, "null"}:
            return
        self._is_versioned = True
        self._tell(StoreTrouble("the home of large payloads needs attention", StoreError(self._versions)))

    @property
    def _versions(self) -> str:
        kept = f"the bucket of {self.address} keeps versions: what is removed stays there as an old version"
        return f"{kept}. Let a lifecycle rule delete old versions, or use a bucket without versions and object locks"

    async def warnings(self) -> Sequence[str]:
        """See `ports.blob_home`. Checks the label and the newest of the first objects, since the label may be older
        than versioning."""

        async def read() -> None:
            async for page in self._store.list():  # pyright: ignore[reportUnknownMemberType] - of Arrow
                newest = max(page, key=lambda each: each["last_modified"], default=None)
                if newest is not None:
                    self._note_version((await self._store.head_async(newest["path"])).get("version"))
                return

        await self._label()
        if not self._is_versioned:
            await self._asked("the blobs cannot be listed", read)
        return (self._versions,) if self._is_versioned else ()

    # -- bytes ---------------------------------------------------------------------------------------------------------

    async def put(self, blobs: Sequence[tuple[str, bytes]], at: datetime) -> None:
        """See `ports.blob_home`."""
        for name, _ in blobs:
            _check_name(name)
        if time.monotonic() - self._seen_at > CHECKED:
            await self.check()
        second = int(at.timestamp())
        new = {name: data for name, data in blobs if not 0 <= second - self._sent.get(name, -RELIED_ON) < RELIED_ON}
        await self._all([self._put(name, data, second) for name, data in new.items()])
        for name in new:
            self._sent.pop(name, None)  # the dictionary is in the order of storing
            self._sent[name] = second
        while len(self._sent) > REMEMBERED:
            del self._sent[next(iter(self._sent))]

    async def _put(self, name: str, data: bytes, second: int) -> None:
        async def write() -> None:
            stored = await self._store.put_async(
                _key(name, second), data, use_multipart=len(data) > PART, chunk_size=PART, max_concurrency=4
            )
            self._note_version(stored.get("version"))

        await self._asked(f"blob {name} was not stored", write)

    async def get(self, names: Collection[str]) -> Mapping[str, bytes]:
        """See `ports.blob_home`."""
        wanted = [name for name in names if _NAME.fullmatch(name)]
        found = dict(zip(wanted, await self._all([self._get(name) for name in wanted]), strict=True))
        if None in found.values():
            await self.check()
        return {name: data for name, data in found.items() if data is not None}

    async def _get(self, name: str) -> bytes | None:
        """The newest object that is whole. If all listed objects are gone, newer ones exist by now, and it lists
        again."""
        for _ in range(3):
            seconds = await self._seconds_of(name)
            is_gone = False
            for second in reversed(seconds):
                data = await self._read(name, second)
                if data is not None and (await asyncio.to_thread(sha256, data)).hexdigest() == name:
                    return data
                is_gone |= data is None
            if not seconds:
                return None
            if not is_gone:
                break
        raise CorruptJournal(f"blob {name} in {self.address} does not hold the bytes of that name. Restore it.")

    async def _read(self, name: str, second: int) -> bytes | None:
        async def read() -> bytes | None:
            try:
                return bytes(await (await self._store.get_async(_key(name, second))).bytes_async())
            except FileNotFoundError:
                return None

        return await self._asked(f"blob {name} cannot be read", read)

    async def _seconds_of(self, name: str) -> list[int]:
        """The seconds in which the blob was stored, by its objects."""

        async def read() -> list[int]:
            keys = [_KEY.fullmatch(path) async for path in self._paths(f"{name}/")]
            return sorted(int(key[2]) for key in keys if key is not None)

        return await self._asked(f"blob {name} cannot be looked for", read)

    # -- removing ------------------------------------------------------------------------------------------------------

    async def remove(self, names: Collection[str], before: datetime) -> None:
        """See `ports.blob_home`."""
        for name in names:
            _check_name(name)
        stored = await self._all([self._seconds_of(name) for name in names])
        keys = [
            _key(name, second)
            for name, seconds in zip(names, stored, strict=True)
            for second in seconds
            if _is_before(second, before)
        ]
        await self._delete(keys)

    async def _delete(self, keys: Sequence[str]) -> None:
        async def delete() -> None:
            await self._store.delete_async(keys)

        if keys:
            await self._asked(f"not removed: {counted(len(keys), 'blob')}", delete)

    async def old(self, after: str, before: datetime, limit: int) -> OldBlobs:
        """See `ports.blob_home`. The cursor is a key. Earlier objects of a blob that was stored several times are old
        once every writer that relied on them has finished; the blob stays in its last object."""
        keys, following = await self._page(after, limit)
        names: dict[str, None] = {}
        superseded: list[str] = []
        for number, (name, second) in enumerate(keys):
            if not _is_before(second, before):
                continue
            names[name] = None
            if number + 1 < len(keys) and keys[number + 1][0] == name:
                superseded.append(_key(name, second))
        await self._delete(superseded)
        return OldBlobs(list(names), following)

    async def _page(self, after: str, limit: int) -> tuple[list[tuple[str, int]], str]:
        """About `limit` objects in the order of their keys, all of each blob; and the last key, or None at the end."""

        async def read() -> tuple[list[tuple[str, int]], str]:
            keys: list[tuple[str, int]] = []
            async for path in self._paths(after=after):
                key = _KEY.fullmatch(path)
                if key is None:
                    continue
                name, second = key[1], int(key[2])
                if len(keys) >= limit and name != keys[-1][0]:
                    return keys, _key(*keys[-1])
                keys.append((name, second))
            return keys, ""

        return await self._asked("the blobs cannot be listed", read)

    async def _paths(self, prefix: str | None = None, *, after: str = "") -> AsyncIterator[str]:
        listed = self._store.list(prefix, offset=after or None)  # pyright: ignore[reportUnknownMemberType] - of Arrow
        async for page in listed:
            for each in page:
                yield each["path"]

    async def close(self) -> None:
        """See `ports.blob_home`."""

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _all(self, requests: Sequence[Awaitable[T]]) -> list[T]:
        async def bounded(request: Awaitable[T]) -> T:
            async with self._slots:
                return await request

        return await asyncio.gather(*map(bounded, requests))

    async def _asked(self, what: str, request: Callable[[], Awaitable[T]]) -> T:
        try:
            return await request()
        except (BaseError, OSError) as error:  # a missing key is a FileNotFoundError
            raise self._translated(what, error) from error

    def _translated(self, what: str, error: Exception) -> StoreError:
        """The error with advice. obstore's messages name addresses and answers, never keys."""
        where = f"{what} ({self.address})"
        if is_of_wrong_clock(error):
            return StoreUnavailable(
                f"{where}: the clock of this machine differs from the one of S3 by more than 15 minutes, so S3 refuses "
                "every request. Set the clock; synchronise it with NTP."
            )
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or "403 Forbidden" in str(error):
            return StoreUnavailable(
                f"{where}: S3 refuses the keys or the permission. The role needs to list, read, write and delete below "
                "the prefix."
            )
        if _is_bucket_missing(error):
            return StoreUnavailable(
                f"{where}: there is no bucket {self._address.bucket!r}. Create it, or name another."
            )
        return StoreUnavailable(f"{where}: {sentence(error)}")


def _connect(address: S3Address, environ: Mapping[str, str]) -> S3Store:
    settings: S3Config = found_settings(environ)
    endpoint = (
        address.endpoint
        or environ.get("AWS_ENDPOINT_URL_S3")
        or environ.get("AWS_ENDPOINT_URL")
        or environ.get("AWS_ENDPOINT")
        or settings.get("endpoint", "")
    )
    region = address.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    settings["region"] = region or settings.get("region", "us-east-1")
    settings["checksum_algorithm"] = "sha256"  # what a bucket with object locks asks of every write
    if endpoint:
        settings["endpoint"] = endpoint
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config=settings,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": "5s",
            "timeout": "60s",
        },
        retry_config={"max_retries": 8, "retry_timeout": PATIENCE},
    )


def _key(name: str, second: int) -> str:
    return f"{name}/{second:010}"


def _is_before(second: int, time: datetime) -> bool:
    """Whether that second was over by then."""
    return second + 1 <= time.timestamp()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BlobNotFound(f"{name!r} is not a blob name (64 hex digits)")


def _is_bucket_missing(error: Exception) -> bool:
    return "NoSuchBucket" in str(error)
