"""A connection to NATS servers: one after the other, TLS, login, and an answer or an error in bounded time.

Asynchronous, for the one event loop of the adapter's own thread.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from holdfast.adapters.leases.endpoints import (
    MOST_PATIENCE,
    Advice,
    Endpoints,
    advised,
    parse_address,
    read_secret,
    unreadable,
)
from holdfast.adapters.leases.tries import Tries
from holdfast.adapters.nats.link import NO_RESPONDERS, Answer, Link, Lost
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.extras import lack_of

PORT: Final = 4222


class Connection:
    """Requests to the cluster. The server that answered last is asked first."""

    def __init__(self, endpoints: Endpoints, *, patience: float = MOST_PATIENCE, tls: Any = None) -> None:
        self._endpoints = endpoints
        self._servers = [parse_server(address) for address in endpoints.addresses]
        self._tls = tls or _context(endpoints)
        check_credentials(endpoints.credentials)
        self.patience = patience
        self._first = 0
        self._link: Link | None = None
        self._opening = asyncio.Lock()

    def twin(self) -> Connection:
        """Another connection to the same servers."""
        return Connection(self._endpoints, patience=self.patience, tls=self._tls)

    @property
    def addresses(self) -> Sequence[str]:
        return self._endpoints.addresses

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        when_unheard: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        """Returns the first answer. Raises `StoreUnavailable` if there is none in time. A message may be sent twice.
        `when_unheard` is called before the next try if a server answers that the subject has no listener."""
        tries = Tries(self.patience, len(self._servers))
        while tries.left > 0:
            number, link = self._first, None
            try:
                link = await self.link(tries.seconds)
                answer = await link.ask(subject, payload, headers, tries.seconds)
                if answer.status != NO_RESPONDERS:
                    return answer
                tries.note(self.addresses[number], "JetStream does not answer: it is off, or has no leader")
                if when_unheard is not None:
                    await when_unheard()
                    when_unheard = None
            except Lost as error:
                tries.note(self.addresses[number], str(error))
            await self._turn_away_from(number, link)
            await asyncio.sleep(tries.pause())
        raise tries.error("NATS", _ADVICE)

    async def link(self, seconds: float) -> Link:
        """A link to the preferred server. Raises `Lost` if it cannot be made in time."""
        async with self._opening:
            if self._link is None or self._link.is_lost:
                link = Link(self._servers[self._first])
                await link.connect(self._endpoints, self._tls, seconds)
                self._link = link
            return self._link

    async def turn_away(self) -> None:
        """Prefers the next server, because this one failed a request."""
        await self._turn_away_from(self._first, self._link)

    async def _turn_away_from(self, number: int, link: Link | None) -> None:
        """Prefers the next server. Of several requests that failed together, only the first switches servers."""
        if number != self._first or link is not self._link:
            return
        self._link = None
        self._first = (self._first + 1) % len(self._servers)
        if link is not None:
            await link.close()

    async def greeting(self, number: int) -> Link:
        """A separate link to the server of that number, to examine it. Raises `StoreUnavailable` if it cannot be
        made."""
        link = Link(self._servers[number])
        try:
            await link.connect(self._endpoints, self._tls, self.patience)
        except Lost as error:
            raise StoreUnavailable(advised(str(error), _ADVICE)) from error
        return link

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


def parse_server(address: str) -> str:
    """The address with its port. Raises `InvalidConfig` for anything but nats://host:port or tls://host:port."""
    scheme, place = parse_address(address, ("nats", "tls"), PORT, example="nats://nats-1:4222")
    return f"{scheme}://{place}"


def check_credentials(path: str) -> None:
    """Raises `StoreRefused` if the credentials file cannot be used."""
    if not path:
        return
    if lack := lack_of("nats", "credentials of NATS need", nkeys="nkeys"):
        raise StoreRefused(lack)
    text = read_secret("credentials", path)
    if "BEGIN NATS USER JWT" not in text:
        raise StoreRefused(f"[leases] credentials {path} is not a credentials file of NATS")


def _context(endpoints: Endpoints) -> Any:
    """The TLS settings; None leaves them to the library, which makes them if a server asks for TLS after all. Reading
    the certificates of all authorities takes a sixth of a second."""
    if not any((endpoints.ca, endpoints.certificate, endpoints.private_key)) and not any(
        address.startswith("tls:") for address in endpoints.addresses
    ):
        return None
    path = endpoints.ca or endpoints.certificate or endpoints.private_key
    try:
        context = ssl.create_default_context(cafile=endpoints.ca or None)
        if endpoints.certificate:
            path = endpoints.certificate
            context.load_cert_chain(endpoints.certificate, endpoints.private_key or None)
    except ssl.SSLError as error:
        raise StoreRefused(f"cannot use NATS for leases: {path} is not in PEM format: {error.reason}") from error
    except OSError as error:
        raise unreadable("NATS", path, error) from error
    return context


_ADVICE: Final[Advice] = (
    ("authorization violation", "The login failed: see [leases] user, password_file, token_file and credentials"),
    ("authentication", "The login failed: see [leases] user, password_file, token_file and credentials"),
    ("no greeting", "What answers there is not NATS, or it expects TLS first"),
    ("no answer", "If this lasts, JetStream has no quorum: start the other servers"),
    ("does not speak tls", "Use nats:// in [leases] endpoints, or enable TLS in the server"),
    ("certificate", "TLS failed: check [leases] ca, certificate and private_key"),
    ("ssl", "TLS failed: check [leases] ca, certificate and private_key"),
    ("tls", "TLS failed: check [leases] ca, certificate and private_key"),
)
