"""What asks a worker process to stop, and what ends it at once."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import logging
import signal
from datetime import timedelta

import pytest

from holdfast.cli.stop_requests import StopRequests


@pytest.mark.parametrize("is_supervised", [False, True])
async def test_only_a_second_signal_ends_the_process(is_supervised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a supervisor's request is no signal, whichever of the two is heard first."""
    ended: list[str] = []
    monkeypatch.setattr(StopRequests, "_exit_now", lambda _self, reason, code: ended.append(f"{reason}: {code}"))
    requests = StopRequests(logging.Formatter(), timedelta(seconds=30))
    if is_supervised:
        requests.stop("the supervisor")
    requests._received(signal.SIGTERM, None)
    assert not ended
    assert await requests.wait() == ("the supervisor" if is_supervised else "SIGTERM")
    requests._received(signal.SIGTERM, None)
    assert ended == ["SIGTERM again: 1"]
