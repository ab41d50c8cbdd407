"""What a handler gets, and how an answer becomes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.responses import Response

from holdfast.client.client import Client
from holdfast.web.tokens import Role

if TYPE_CHECKING:
    from holdfast.web.queries import Query
    from holdfast.web.service import Service

B = TypeVar("B")


@dataclass(frozen=True)
class Identity:
    """Who asks. `is_ambient`: a browser sends the credential by itself, so that the origin has to be looked at.
    `token` names the token behind it, if there is one."""

    name: str
    role: Role
    is_ambient: bool = False
    token: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Call:
    """One request that passed the gate."""

    service: Service
    client: Client
    who: Identity
    query: Query
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    last_event_id: str = ""

    @property
    def id(self) -> str:
        """The id in the path."""
        return self.path["id"]

    def given(self, kind: type[B]) -> B:
        """The body, of the type that its route says."""
        assert isinstance(self.body, kind)
        return self.body


def encode(value: Any) -> bytes:
    """An answer as JSON."""
    return msgspec.json.encode(value)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a body."""
    return Response(encode(value), status, headers=headers, media_type="application/json")
