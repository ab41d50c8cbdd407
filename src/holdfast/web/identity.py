"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.web.tokens import Role


@dataclass(frozen=True)
class Identity:
    """Who asks. `is_ambient`: a browser sends the credential by itself, so the origin has to be checked. `token` names
    the token behind it, if there is one."""

    name: str
    role: Role
    is_ambient: bool = False
    token: str = ""
    expires_at: datetime | None = None
