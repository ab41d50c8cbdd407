"""Encodes answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a body."""
    return Response(encode(value), status, headers=headers, media_type="application/json")
