"""Pydantic models, without importing Pydantic: if nothing imported it, there are no models.

These are msgspec's hooks for types it does not know: `encode_hook` for values, `decode_hook` for annotations.
"""

from __future__ import annotations

import sys
from typing import Any, TypeGuard, cast

import msgspec

from holdfast.core.budget import check_room

__all__ = ["decode_hook", "encode_hook", "is_model"]

_encode = msgspec.json.Encoder().encode


def is_model(cls: object) -> TypeGuard[type[Any]]:
    """Whether `cls` is a Pydantic model class."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def encode_hook(value: Any) -> Any:
    """The JSON-like form of a model; other objects are refused."""
    cls = cast(Any, type(value))
    if is_model(cls):
        check_room(value)  # a dump has no limit
        return value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def decode_hook(cls: type[Any], data: Any) -> Any:
    """The model of its JSON-like form. It goes through JSON, so that strict models accept JSON's strings for dates."""
    if is_model(cls):
        return cls.model_validate_json(_encode(data))
    if cls is object:  # any value, as with Any
        return data
    raise TypeError(f"Decoding objects of type {cls.__name__} is unsupported")
