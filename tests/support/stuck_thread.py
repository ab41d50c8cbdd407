"""A body in a thread that ends only when a test lets it."""

from __future__ import annotations

import asyncio
import threading

from holdfast import current, heartbeat


class Thread:
    """The body of a `def` step: blocks until the test lets it go, and then says what it was told."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.ended = threading.Event()
        self.was_cancelled: list[bool] = []
        self.raised: list[str] = []

    def run(self) -> str:
        self.begun.set()
        self.may_end.wait(100)
        self.was_cancelled.append(current().is_cancelled)
        try:
            heartbeat("further")
        except BaseException as error:
            self.raised.append(type(error).__name__)
            raise
        finally:
            self.ended.set()
        return "late"

    async def end(self) -> None:
        self.may_end.set()
        assert await asyncio.to_thread(self.ended.wait, 60)
