"""What a handler receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.client.client import Client
from holdfast.web.identity import Identity
from holdfast.web.queries import Query
from holdfast.web.service import Service

B = TypeVar("B")


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
        return self.path["id"]

    def given(self, kind: type[B]) -> B:
        """The body, of its route's type."""
        assert isinstance(self.body, kind)
        return self.body
