"""Addresses of stores, as people may see them."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

__all__ = ["without_secrets"]

_SECRET = {"password", "sslpassword"}


def without_secrets(url: str) -> str:
    """The address without its password: for messages, logs and lists."""
    base, mark, query = url.partition("?")
    scheme, separator, rest = base.partition("://")
    user, at, place = rest.rpartition("@")
    shown = f"{scheme}{separator}{user.partition(':')[0]}{at}{place}"
    if not mark or not any(f"{word}=" in query for word in _SECRET):
        return shown + mark + query
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in _SECRET]
    return shown + (mark + urlencode(kept, quote_via=quote) if kept else "")
