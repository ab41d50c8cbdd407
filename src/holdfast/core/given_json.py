"""JSON from people and other programs, read strictly, so that nothing is silently lost or changed.

A duplicate key in an object is refused (the first value would be lost), and so is nesting deeper than payloads allow.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from holdfast.core.diagnose import MAX_DEPTH
from holdfast.errors import InvalidInput

__all__ = ["check_keys", "given_json"]


def given_json(data: bytes, what: str) -> Any:
    """The value. Raises `InvalidInput`, which says why it cannot be read. `what` names it in errors."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise _too_deep(what) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    check_keys(data, what)
    return value


def check_keys(data: bytes, what: str) -> None:
    """Refuses well-formed JSON that has a duplicate key in an object."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) != len(dict(pairs)):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"{what} has the key {twice[:80]!r} twice in one object: keep one of them")

    try:
        json.loads(data, object_pairs_hook=check, parse_int=_skip, parse_float=_skip, parse_constant=_skip)
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        _refuse(what, error)


def _skip(_: str) -> None:
    return None


def _refuse(what: str, error: ValueError) -> NoReturn:
    if isinstance(error, InvalidInput):
        raise error
    raise InvalidInput(f"{what} is not JSON: {error}") from None


def _too_deep(what: str) -> InvalidInput:
    limit = f"{what} is nested too deeply: at most {MAX_DEPTH} levels"
    return InvalidInput(f"{limit}. Flatten it, or give parts of it as text")
