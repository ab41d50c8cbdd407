"""`isinstance` for containers, for type checkers: the contents are `Any`, not unknown."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_dict", "is_list", "is_named", "is_set", "is_tuple"]


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def is_named(value: object) -> TypeGuard[Any]:
    return is_tuple(value) and hasattr(value, "_fields")


def is_set(value: object) -> TypeGuard[set[Any] | frozenset[Any]]:
    """A set or frozenset, or a subclass."""
    return isinstance(value, (set, frozenset))
