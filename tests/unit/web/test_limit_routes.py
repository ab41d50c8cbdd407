"""Limits over HTTP: what they allow, and what people do to them."""

from __future__ import annotations

import pytest

from holdfast.core.limit import Rule
from holdfast.upkeep.limit_book import declare
from tests.unit.web.conftest import Api


@pytest.fixture
async def limited(api: Api) -> Api:
    client = await api.app.client()
    await declare(client.store, {"api": Rule(20_000, 10, None)}, instance="i1")
    return api


async def test_a_limit_is_set_until_it_is_reset(limited: Api) -> None:
    """Promise: list and single answer agree; what a person sets counts until the reset."""
    [listed] = (await limited.get("limits"))["limits"]
    one = await limited.get("limits/api")
    assert (one["limit"], one["keys"], one["next"]) == (listed, [], "")
    assert (listed["rate"], listed["burst"], listed["held"], listed["waiting"]) == ("50/s", 10, 0, 0)
    shown = (await limited.post("limits/api/set", {"rate": "5/s"}, role="admin"))["limit"]
    assert (shown["rate"], shown["by_hand"]) == ("5/s", True)
    assert (await limited.post("limits/api/reset", role="admin"))["limit"] == listed


async def test_a_limit_is_paused_with_a_reason_and_resumed(limited: Api) -> None:
    """Promise: a pause has a reason."""
    shown = (await limited.post("limits/api/pause", {"reason": "429s"}, role="operate"))["limit"]
    assert (shown["paused"], shown["reason"]) == (True, "429s")
    assert (await limited.post("limits/api/resume", role="operate"))["limit"]["paused"] is False
