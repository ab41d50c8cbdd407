"""The caller of a request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.web.tokens import Role


@dataclass(frozen=True)
class Identity:
    """The caller. `is_ambient`: a browser sends the credential automatically, so the origin must be checked. `token`
    names the token behind it, if there is one."""

    name: str
    role: Role
    is_ambient: bool = False
    token: str = ""
    expires_at: datetime | None = None
