"""Queues over HTTP: what waits, what holds it back, and what people change."""

from __future__ import annotations

import logging

import pytest

from tests.unit.web.conftest import Api


async def test_a_queue_is_paused_with_a_reason_and_resumed(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: list and single answer agree; the audit says who did it."""
    with caplog.at_level(logging.INFO, "holdfast.audit"):
        paused = await api.post("queues/mail/pause", {"reason": "provider is down"}, role="operate")
    assert (paused["queue"]["is_paused"], paused["queue"]["reason"]) == (True, "provider is down")
    assert any("queues pause (mail)" in message for message in caplog.messages)
    listed = {queue["name"]: queue for queue in (await api.get("queues"))["queues"]}
    assert listed["mail"] == (await api.get("queues/mail"))["queue"]
    assert not (await api.post("queues/mail/resume", {}, role="operate"))["queue"]["is_paused"]


async def test_rules_are_set_and_reset(api: Api) -> None:
    """Promise: what is not given stays, null lifts a rule, and only an admin may."""
    shown = await api.post("queues/mail/set", {"at_once": 5, "rate": "20/m"}, role="admin")
    assert (shown["queue"]["at_once"], shown["queue"]["rate"]) == (5, "20/m")
    shown = await api.post("queues/mail/set", {"at_once": None, "shares": {"gold": 3}}, role="admin")
    assert (shown["queue"]["at_once"], shown["queue"]["rate"], shown["queue"]["shares"]) == (
        None,
        "20/m",
        {"gold": 3.0},
    )
    shown = await api.post("queues/mail/reset", {}, role="admin")
    assert (shown["queue"]["rate"], shown["queue"]["overrides"]) == (None, [])
