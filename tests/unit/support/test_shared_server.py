"""Servers of the tests: `dev.py test --quick` starts none."""

from __future__ import annotations

import pytest

from tests.command.stages import NO_SERVERS
from tests.support.shared_server import shared_port


def test_where_no_server_is_wanted_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a test that asks for one fails, and says which mark it lacks."""
    monkeypatch.setenv(NO_SERVERS, "1")
    with pytest.raises(RuntimeError, match="no postgres server: put the mark `server` on this test"):
        shared_port("postgres")
