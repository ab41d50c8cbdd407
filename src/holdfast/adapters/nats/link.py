"""A link to one NATS server: requests and answers until it is lost, and never a reconnection of its own.

nats-py reconnects by itself and lets open requests wait until they time out. Here a lost link fails them all at once,
and the caller chooses the next server.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.adapters.leases.endpoints import Endpoints

aio: Any = importlib.import_module("nats.aio.client")
"""The client library. Its types are partial."""

UnexpectedEOF: Any = importlib.import_module("nats.errors").UnexpectedEOF

PING_SECONDS: Final = 2
NO_RESPONDERS: Final = "503"


class Lost(Exception):
    """The server cannot be reached or does not answer. The request may have been carried out."""


class Answer(msgspec.Struct, frozen=True):
    """An answer. `status` is the status of the protocol, empty for an ordinary message."""

    data: bytes
    status: str = ""


class Link:
    """See the module. `connect` makes one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Any = aio.Client()
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._asked = 0
        self._inbox = ""
        self._told: list[BaseException] = []
        self._is_answered = False
        """Whether the server has answered anything."""
        self.is_lost: bool = False
        self.when_lost: list[Callable[[], None]] = []

    # -- opening and closing -------------------------------------------------------------------------------------------

    async def connect(self, endpoints: Endpoints, tls: Any, seconds: float) -> None:
        """Connects to the server. Raises `Lost` with the library's reason if that fails or takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._client.connect(
                    servers=[self.address],
                    name="holdfast",
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=seconds,
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=2,
                    error_cb=self._note,
                    closed_cb=self._lose,
                    tls=tls,
                    **self._login(endpoints),
                )
                self._check_tls()
                # The library reports an end by `closed_cb`, but not if it fails to send what was left.
                self._client._reading_task.add_done_callback(self._end)
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(f"{self._inbox}.*", cb=self._hear)
        except asyncio.CancelledError:
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise Lost(self._reason(error)) from error

    def _login(self, endpoints: Endpoints) -> dict[str, Any]:
        """The login, given when the library asks for it: not before TLS is established."""

        def told_in_private(secret: str) -> Callable[[], str] | None:
            def tell() -> str:
                self._check_tls()
                return secret

            return tell if secret else None

        return {
            "user": told_in_private(endpoints.user),
            "password": told_in_private(endpoints.password),
            "token": told_in_private(endpoints.token),
            "user_credentials": endpoints.credentials or None,
        }

    def _check_tls(self) -> None:
        if urlsplit(self.address).scheme == "tls" and not self.server.get("tls_required"):
            raise Lost("the server does not speak TLS")

    @property
    def server(self) -> Mapping[str, Any]:
        """What the server says about itself."""
        found: Mapping[str, Any] = self._client._server_info
        return found

    async def close(self) -> None:
        """Closes the link. A frozen server does not delay this."""
        self._client._closed_cb = None
        with suppress(Exception):
            async with asyncio.timeout(1):
                await self._client.close()
        self._end()

    async def _note(self, error: BaseException) -> None:
        self._told.append(error)

    def _reason(self, error: BaseException) -> str:
        """The reason in words. The library's last error says more than the one it raises."""
        found = next((each for each in reversed(self._told) if str(each)), error)
        if isinstance(found, TimeoutError) or "expecting INFO" in str(found):
            return f"no greeting from a NATS server ({str(found) or 'it took too long'})"
        words = " ".join((str(found) or repr(found)).split())[:300]
        return self._ending(words) if isinstance(found, ConnectionError | UnexpectedEOF) else words

    async def _lose(self) -> None:
        self._end()

    def _end(self, _: object = None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(self._lost())
        for hear in self.when_lost:
            hear()

    def _lost(self) -> Lost:
        if self._told:
            return Lost(f"the connection ended: {self._reason(self._told[-1])}")
        return Lost(self._ending("the connection ended"))

    def _ending(self, words: str) -> str:
        """Says if the server hung up after the TLS handshake or the login: it does so when it refuses a certificate or
        user, and its reason is often lost on the way."""
        if not self._is_answered and self.server.get("tls_required"):
            return f"{words}, right after the TLS handshake"
        if not self._is_answered and self.server.get("auth_required"):
            return f"{words}, right after the authentication"
        return words

    # -- asking --------------------------------------------------------------------------------------------------------

    async def ask(self, subject: str, payload: bytes, headers: dict[str, str] | None, seconds: float) -> Answer:
        """Sends one message and returns its answer. Raises `Lost` if there is none in time."""
        if self.is_lost:
            raise self._lost()
        self._asked += 1
        token = f"{self._asked}"
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            async with asyncio.timeout(seconds):
                await self._client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=headers)
                return await future
        except TimeoutError as error:
            raise Lost(f"no answer within {seconds:.1f} s") from error
        except Lost:
            raise
        except Exception as error:
            raise Lost(self._reason(error)) from error
        finally:
            del self._waiting[token]

    async def _hear(self, message: Any) -> None:
        self._is_answered = True
        future = self._waiting.get(message.subject.rpartition(".")[2])
        if future is not None and not future.done():
            future.set_result(Answer(message.data, headers_of(message).get("Status", "")))

    async def subscribe(self, hear: Callable[[Any], Awaitable[None]]) -> Any:
        """Subscribes to a new subject, until the returned subscription is closed."""
        return await self._client.subscribe(self._client.new_inbox(), cb=hear)


def headers_of(message: Any) -> Mapping[str, str]:
    """The headers of a message of the library, if it has any."""
    found: Mapping[str, str] | None = message.headers
    return found or {}
