"""A connection to an etcd cluster: one member after the other, TLS, login, and an answer or an error in bounded time.

Blocking, through grpc's synchronous stubs, and safe in any thread. (Asynchronous ones bind all of grpc in a process to
one event loop, which may be the user's.) The stubs are aetcd's; its client takes one host, no TLS, and logs in once.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.adapters.leases.endpoints import (
    LEAST_PATIENCE,
    MOST_PATIENCE,
    Advice,
    Endpoints,
    advised,
    parse_address,
    unreadable,
)
from holdfast.adapters.leases.tries import Tries
from holdfast.errors import StoreRefused, StoreUnavailable

grpc: Any = importlib.import_module("grpc")
rpc: Any = importlib.import_module("aetcd.rpc")
"""Messages and stubs as protoc made them. Neither library has types."""

PORT: Final = 2379
OPTIONS: Final = [
    ("grpc.keepalive_time_ms", 5000),  # the least that etcd allows: a member that is frozen is noticed
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
]
_CODE = grpc.StatusCode
_AGAIN = {_CODE.UNAVAILABLE, _CODE.DEADLINE_EXCEEDED, _CODE.CANCELLED, _CODE.ABORTED, _CODE.UNKNOWN, _CODE.INTERNAL}
_LOGIN = ("invalid auth token", "revision of auth store is old", "auth token")


class LeaseGone(Exception):
    """The etcd lease has run out, or was revoked."""


class Connection:
    """Calls to the cluster. The member that answered last is asked first."""

    def __init__(self, endpoints: Endpoints, *, patience: float = MOST_PATIENCE) -> None:
        self._endpoints = endpoints
        self.patience = patience
        self._channels: list[Any] = [_channel(address, endpoints) for address in endpoints.addresses]
        self._first = 0
        self._token = ""
        self._lock = threading.Lock()

    @property
    def addresses(self) -> Sequence[str]:
        return self._endpoints.addresses

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, stub: str, method: str, request: Any, *, patience: float = 0.0) -> Any:
        """Returns the answer of the first member that gives one. Raises `StoreUnavailable` if none does in time,
        `LeaseGone` if the request names a lease that does not exist."""

        def ask(channel: Any, seconds: float) -> Any:
            return getattr(getattr(rpc, stub)(channel), method)(request, timeout=seconds, metadata=self._metadata())

        return self._asked(ask, patience or self.patience)

    def keep_alive(self, lease: int) -> int:
        """Renews a lease and returns its new length in seconds. Raises `LeaseGone` if it does not exist."""

        def ask(channel: Any, seconds: float) -> int:
            stream = rpc.LeaseStub(channel).LeaseKeepAlive(
                iter([rpc.LeaseKeepAliveRequest(ID=lease)]), timeout=seconds, metadata=self._metadata()
            )
            try:
                return int(next(stream).TTL)
            finally:
                stream.cancel()

        left: int = self._asked(ask, self.patience)
        if left <= 0:
            raise LeaseGone
        return left

    def watch(self, requests: Iterator[Any]) -> Any:
        """A stream of watch responses from the preferred member. It ends if that member loses its leader."""
        channel = self._channels[self._first]
        return rpc.WatchStub(channel).Watch(requests, metadata=[*self._metadata(), ("hasleader", "true")])

    def turn_away(self) -> None:
        """Prefers the next member, because this one failed."""
        self._first = (self._first + 1) % len(self._channels)

    def status(self, number: int) -> Any:
        """Asks the member of that number for its status."""
        stub = rpc.MaintenanceStub(self._channels[number])
        try:
            self._log_in_once()
            return stub.Status(rpc.StatusRequest(), timeout=LEAST_PATIENCE, metadata=self._metadata())
        except grpc.RpcError as error:
            raise StoreUnavailable(f"{self.addresses[number]}: {_words(error)}") from error

    def close(self) -> None:
        """Closes the connections to all members."""
        for channel in self._channels:
            channel.close()

    def _asked(self, ask: Callable[[Any, float], Any], patience: float) -> Any:
        tries = Tries(patience, len(self._channels))
        is_fresh = False
        while tries.left > 0:
            number = self._first
            try:
                self._log_in_once()
                return ask(self._channels[number], tries.seconds)
            except grpc.RpcError as error:
                words = _words(error)
                if "lease not found" in words:
                    raise LeaseGone from error
                if self._token and not is_fresh and any(text in words for text in _LOGIN):
                    is_fresh, self._token = True, ""
                    continue
                if error.code() not in _AGAIN:
                    raise StoreUnavailable(f"etcd at {self.addresses[number]}: {advised(words, _ADVICE)}") from error
                tries.note(self.addresses[number], words)
            if self._first == number:
                self.turn_away()
            if self._first == 0 or len(self._channels) == 1:  # all were asked
                threading.Event().wait(tries.pause())
        raise tries.error("etcd", _ADVICE)

    # -- login ---------------------------------------------------------------------------------------------------------

    def _metadata(self) -> list[tuple[str, str]]:
        return [("token", self._token)] if self._token else []

    def _log_in_once(self) -> None:
        if not self._endpoints.user or self._token:
            return
        with self._lock:
            if self._token:
                return
            request = rpc.AuthenticateRequest(name=self._endpoints.user, password=self._endpoints.password)
            answer = rpc.AuthStub(self._channels[self._first]).Authenticate(request, timeout=LEAST_PATIENCE)
            self._token = answer.token

    # -- opening -------------------------------------------------------------------------------------------------------

    def check(self, request: Any) -> Any:
        """Answers a request for keys. Raises `StoreRefused` unless members answer, the user may read these keys, and
        there is a leader."""
        try:
            return self.call("KVStub", "Range", request, patience=MOST_PATIENCE)
        except StoreUnavailable as error:
            leaderless = self._leaderless()
            raise StoreRefused(f"cannot use etcd for leases: {leaderless or error}") from error

    def _leaderless(self) -> str:
        """A sentence for the user if members answer but have no quorum."""
        answering = 0
        for number in range(len(self._channels)):
            try:
                answering += not self.status(number).leader
            except StoreUnavailable:
                continue
        if not answering:
            return ""
        return (
            f"{answering} of {len(self._channels)} members answer but there is no leader: the cluster has no quorum. "
            "Start the other members"
        )


def parse_endpoint(address: str) -> tuple[str, bool]:
    """Host, port, and whether the endpoint uses TLS. Raises `InvalidConfig` for anything but http(s)://host:port."""
    scheme, place = parse_address(address, ("http", "https"), PORT, example="http://etcd-1:2379")
    return place, scheme == "https"


def _channel(address: str, endpoints: Endpoints) -> Any:
    target, is_secure = parse_endpoint(address)
    if not is_secure:
        return grpc.insecure_channel(target, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_pem(endpoints.ca),
        private_key=_pem(endpoints.private_key),
        certificate_chain=_pem(endpoints.certificate),
    )
    return grpc.secure_channel(target, credentials, options=OPTIONS)


def _pem(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise unreadable("etcd", path, error) from error


def _words(error: Any) -> str:
    return " ".join(str(error.details() or error.code()).split())[:300]


_ADVICE: Final[Advice] = (
    ("authentication failed", "User or password are wrong: see [leases] user and password_file"),
    ("user name is empty", "This etcd requires a login: set [leases] user and password_file"),
    ("authentication is not enabled", "This etcd has no users: remove [leases] user"),
    ("permission denied", "The user needs to read and write below the prefix"),
    ("certificate", "TLS failed: check [leases] ca, certificate and private_key"),
    (
        "ssl",
        "TLS failed: check [leases] ca, certificate and private_key, and whether the endpoint is https",
    ),
    (
        "handshake",
        "TLS failed: check [leases] ca, certificate and private_key, and whether the endpoint is https",
    ),
    ("http2", "What answers there is not etcd, or requires TLS (https)"),
    ("unimplemented", "What answers there is not etcd"),
    ("http1", "What answers there is not etcd"),
    ("settings frame", "What answers there is not etcd, or requires TLS (https)"),
    ("socket closed", "What answers there is not etcd, or requires TLS (https)"),
    ("deadline exceeded", "If this lasts, there is no quorum: start the other members"),
    ("database space exceeded", "etcd is full: compact and defragment it"),
)
