"""Where a lease manager is, how to enter, and what to say when it does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidConfig, StoreRefused, StoreUnavailable

LEAST_PATIENCE: Final = 2.0
MOST_PATIENCE: Final = 5.0
"""Maximum seconds of a call, however long the lease is."""


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of servers, a login, and paths of PEM files. `token` and `credentials` (a path) are for NATS."""

    addresses: tuple[str, ...]
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    ca: str = ""
    certificate: str = ""
    private_key: str = ""

    def __repr__(self) -> str:
        return f"Endpoints({', '.join(self.addresses)})"


class Address(NamedTuple):
    """One server. `place` is its host and port."""

    scheme: str
    place: str


def parse_address(address: str, schemes: Sequence[str], port: int, *, example: str) -> Address:
    """The parts of SCHEME://host:port, `port` being the default. `InvalidConfig` for anything else."""
    parts = urlsplit(address)
    try:
        port = parts.port or port
    except ValueError:
        port = 0
    if parts.scheme not in schemes or not parts.hostname or not port or parts.path.strip("/") or parts.query:
        shown = address.rpartition("@")[2]
        raise InvalidConfig(f'[leases] endpoints: {shown!r} is not an address such as "{example}"')
    if "@" in parts.netloc:
        raise InvalidConfig("[leases] endpoints: an address takes no password. Use [leases] user and password_file")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Address(parts.scheme, f"{host}:{port}")


Advice = Sequence[tuple[str, str]]
"""Pairs: a text that an error may contain, in lower case, and the advice for that error."""


def advised(words: str, advice: Advice) -> str:
    """An error of a server, with advice if there is any. The first text that matches counts."""
    return next((f"{words}. {text}" for sign, text in advice if sign in words.lower()), words)


def unanswered(what: str, patience: float, failures: Mapping[str, str], advice: Advice) -> StoreUnavailable:
    """The error to raise when every server has failed; `failures` maps each address to its words."""
    told = "; ".join(f"{address}: {advised(words, advice)}" for address, words in failures.items())
    return StoreUnavailable(f"{what} does not answer within {patience:.1f} s. {told}")


def unreadable(what: str, path: str, error: OSError) -> StoreRefused:
    """The error for a certificate or key that cannot be read."""
    return StoreRefused(f"cannot use {what} for leases: {path} cannot be read: {error.strerror}")


def patience_for(ttl: float) -> float:
    """Maximum seconds of a call when leases have that length."""
    return min(max(ttl / 3, LEAST_PATIENCE), MOST_PATIENCE)


def read_secret(setting: str, path: str) -> str:
    """Reads the secret from the file that a setting names; empty if it names none. Raises `StoreRefused` if the file
    cannot be read."""
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreRefused(f"[leases] {setting} {path} cannot be read: {type(error).__name__}") from error
