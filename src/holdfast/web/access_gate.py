"""The gate decides who may do what, before anything is routed. Everything is denied unless allowed here.

It checks, in this order: the requested host, the credential and, for a method that may change something, the origin and
the type of the body. Paths that need no credential are an exact set; they hold no data.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from inspect import isawaitable
from typing import Any, TypeAlias

from holdfast.web.identity import Identity
from holdfast.web.login_sessions import Codes, Sessions
from holdfast.web.problems import Problem
from holdfast.web.tokens import Token, Tokens, check_role, find_token

LOG = logging.getLogger("holdfast.http")

SAFE = frozenset({"GET", "HEAD"})
METHODS = SAFE | {"POST", "DELETE"}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
FAILURES, WINDOW = 10, timedelta(minutes=1)
"""Failed credentials that one address may send within the window; further ones are told to wait."""

MOST_ADDRESSES = 10_000

Scope: TypeAlias = Mapping[str, Any]
Authorize: TypeAlias = Callable[[Scope], "tuple[str, str] | Awaitable[tuple[str, str] | None] | None"]
"""A user's function that identifies the caller: name and role, or None."""


class Gate:
    """Checks every request."""

    def __init__(
        self,
        *,
        tokens: Tokens,
        authorize: Authorize | None,
        allowed_hosts: Iterable[str],
        sessions: Sessions,
        codes: Codes,
        clock: Callable[[], datetime],
    ) -> None:
        self.tokens = tokens
        self.sessions = sessions
        self.codes = codes
        self._authorize = authorize
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        self._clock = clock
        self._failures: dict[str, list[datetime]] = {}

    def check_host(self, headers: Mapping[str, str]) -> str:
        """The host of the request, if it is allowed. Another name for this address may be an attack (DNS rebinding)."""
        host = headers.get("host", "").lower()
        if "*" in self._hosts and host:
            return host
        if host not in self._hosts and name_of(host) not in self._hosts:
            raise Problem(
                403, "ForeignHost", f"this server does not answer for host {host[:100]!r}; allow it: allowed_hosts=[…]"
            )
        return host

    async def identify(self, scope: Scope, headers: Mapping[str, str]) -> Identity:
        """Identifies the caller. Refuses a request without valid credentials."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            token = find_token(self.tokens.tokens(), secret.strip())
            if token is None:
                raise self.failed(scope, "this token is not known, or was revoked")
            return Identity(token.name, token.role, token=token.id)
        cookie = cookie_of(headers, cookie_name(headers))
        if cookie:
            found = self.sessions.find(cookie, self.tokens.tokens())
            if found is not None:
                token, expires = found
                return Identity(token.name, token.role, is_ambient=True, token=token.id, expires_at=expires)
        if self._authorize is not None:
            answer = self._authorize(scope)
            told = await answer if isawaitable(answer) else answer
            if told is not None:
                return Identity(told[0], check_role(told[1]), is_ambient=True)
        if cookie:
            raise self.failed(scope, "the session is over: sign in again")
        raise Problem(
            401, "Unauthorized", "who asks? Send Authorization: Bearer TOKEN (holdfast tokens add NAME --role read)",
            headers=_CHALLENGE,
        )  # fmt: skip

    def is_valid(self, who: Identity) -> bool:
        """Whether these credentials are still valid. Open streams check this regularly."""
        if who.expires_at is not None and who.expires_at <= self._clock():
            return False
        return not who.token or any(token.id == who.token for token in self.tokens.tokens())

    def failed(self, scope: Scope, detail: str) -> Problem:
        """Records an invalid credential. An address with many of them is told to wait."""
        client = scope.get("client")
        address = str(client[0]) if client else ""
        now = self._clock()
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.clear()
        recent = [at for at in self._failures.get(address, ()) if now - at < WINDOW][-FAILURES:]
        self._failures[address] = [*recent, now]
        LOG.warning("a request from %s was refused: %s", address or "somewhere", detail, extra={"fact": "refused"})
        if len(recent) >= FAILURES:
            wait = max(1, int((WINDOW - (now - recent[0])).total_seconds()))
            return Problem(
                429,
                "TooManyRequests",
                f"too many failed attempts; try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        return Problem(401, "Unauthorized", detail, headers=_CHALLENGE)

    def sign_in(self, scope: Scope, *, token: str | None, code: str | None) -> Token:
        """The token behind a secret or a one-time code."""
        found = self.codes.take(code) if code is not None else find_token(self.tokens.tokens(), token or "")
        if found is None:
            raise self.failed(scope, "this token or code is not known, was used, or is too old")
        return found


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="holdfast"'}


def check_unsafe(headers: Mapping[str, str], scheme: str, host: str, *, is_ambient: bool, has_body: bool) -> None:
    """Checks a method that may change something: it must come from our own page, or with a credential that browsers do
    not send automatically; and as JSON, which forms of other pages cannot send."""
    origin = headers.get("origin")
    if origin is None:
        if is_ambient:
            raise Problem(403, "ForeignOrigin", "a request with a session needs its Origin header")
    elif origin.lower() != f"{scheme}://{host}":
        raise Problem(403, "ForeignOrigin", f"origin {origin[:100]!r} is not this server's")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if (has_body or kind) and kind != "application/json":
        raise Problem(415, "UnsupportedMediaType", f"content type {kind[:80]!r}: send application/json")


def cookie_name(headers: Mapping[str, str]) -> str:
    """Browsers send cookies of one port to all ports of a host, so each server has its own cookie name."""
    _, colon, port = headers.get("host", "").rpartition(":")
    return f"holdfast-{port}" if colon and port.isdecimal() else "holdfast"


def cookie_of(headers: Mapping[str, str], name: str) -> str:
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return ""


def name_of(host: str) -> str:
    """A host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
