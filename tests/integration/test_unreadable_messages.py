"""A message that cannot be read concerns its run alone."""

from __future__ import annotations

import pytest

from holdfast import Signal, workflow
from holdfast.ports.inbox import Message
from tests.support.world import World

go = Signal[int]("go")


@workflow
async def waits() -> int:
    return await go.wait()


async def test_an_unreadable_message_holds_up_no_other_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: runs claimed together with one whose inbox cannot be read go on; that one is put back, and said."""
    app = world.app(waits)
    runs = [await app.start(waits(), id=f"r{number}") for number in range(6)]
    for number, run in enumerate(runs):
        if number == 0:
            await world.store.send(Message(run=run.id, id="bad", kind="signal", body=b"{not an event"))
        else:
            await run.signal(go, number)
    async with world.worker(app):
        assert [await run.result("10s") for run in runs[1:]] == [1, 2, 3, 4, 5]
    assert "run r0" in caplog.text
    assert "does not decode" in caplog.text
