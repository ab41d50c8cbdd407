"""Sessions of the page: a signed cookie that names a token, and codes that open one session each.

The cookie holds no secret of the token. It is valid until it expires, the token is revoked or, without a configured
secret, the process ends.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from holdfast.web.tokens import Token, digest_of

SESSION = timedelta(hours=12)
CODE = timedelta(seconds=60)
_VERSION = "1"


class Sessions:
    """Signs and checks cookies."""

    def __init__(self, secret: str = "", *, clock: Callable[[], datetime]) -> None:
        self._key = secret.encode() if secret else secrets.token_bytes(32)
        self._clock = clock

    def open(self, token: Token) -> tuple[str, datetime]:
        """A cookie for the bearer of a token, and when it expires."""
        expires = self._clock() + SESSION
        told = f"{_VERSION}.{token.id}.{int(expires.timestamp())}.{secrets.token_urlsafe(12)}"
        return f"{told}.{self._signature(told)}", expires

    def find(self, cookie: str, known: Iterable[Token]) -> tuple[Token, datetime] | None:
        told, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(errors="replace"), self._signature(told).encode()):
            return None
        version, name, until, _ = told.split(".")
        expires = datetime.fromtimestamp(int(until), self._clock().tzinfo)
        if version != _VERSION or expires <= self._clock():
            return None
        return next(((token, expires) for token in known if token.id == name), None)

    def _signature(self, told: str) -> str:
        digest = hmac.digest(self._key, told.encode(errors="replace"), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Codes:
    """One-time codes: each opens one session, within a minute."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[Token, datetime]] = {}
        self.used: asyncio.Event = asyncio.Event()
        """Set once a code has opened a session."""

    def new(self, token: Token) -> str:
        """A code for the bearer of a token."""
        code = secrets.token_urlsafe(24)
        self._known[digest_of(code)] = (token, self._clock() + CODE)
        return code

    def take(self, code: str) -> Token | None:
        """The token of a code, which is used up."""
        token, until = self._known.pop(digest_of(code), (None, self._clock()))
        if token is None or until <= self._clock():
            return None
        self.used.set()
        return token
