"""Where a lease manager is, and how to enter."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import StoreRefused

LEAST_PATIENCE: Final = 2.0
MOST_PATIENCE: Final = 5.0
"""Seconds in which a call answers or raises, whatever the lease."""


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


def patience_for(ttl: float) -> float:
    """Seconds that a call may take under leases of that length."""
    return min(max(ttl / 3, LEAST_PATIENCE), MOST_PATIENCE)


def read_secret(setting: str, path: str) -> str:
    """The line in the file that a setting names; empty if it names none. `StoreRefused` if it cannot be read."""
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreRefused(f"[leases] {setting} {path} cannot be read: {type(error).__name__}") from error
