"""Settings that have a name outside the code."""

from __future__ import annotations

URL_VARIABLE = "HOLDFAST_URL"
DEFAULT_URL = "sqlite:///holdfast.db"
