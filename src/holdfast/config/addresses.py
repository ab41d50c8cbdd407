"""Addresses of stores, as people may see them."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

__all__ = ["options_in", "without_secrets"]

_SECRET = {"password", "sslpassword"}


def options_in(query: str) -> list[tuple[str, str]]:
    """The options after the question mark, as libpq reads them: a plus is a plus."""
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


def without_secrets(url: str) -> str:
    """The address without its password: for messages, logs and lists."""
    base, mark, query = url.partition("?")
    scheme, separator, rest = base.partition("://")
    user, at, place = rest.rpartition("@")
    shown = f"{scheme}{separator}{user.partition(':')[0]}{at}{place}"
    if not mark or not any(f"{word}=" in query for word in _SECRET):
        return shown + mark + query
    kept = [(name, value) for name, value in options_in(query) if name not in _SECRET]
    return shown + (mark + urlencode(kept, quote_via=quote) if kept else "")
