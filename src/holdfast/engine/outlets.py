"""What step bodies send to streams: buffered from any thread, written together, in order, and counted for readers.

::

    send ──▶ buffer of a stream ──▶ every 50 ms, or when asked: one append for all streams of this worker ──▶ store

An outlet belongs to one attempt. It knows where its parts are (spans), and the outcome of the body counts only after
the last of them is durable. The offset of a stream's end is a guess, corrected by the store (`Elsewhere`): most streams
begin with their first part. After a lost answer the same parts are sent again, which the store recognises.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from holdfast.authoring.script.stream import MOST_BYTES, MOST_PARTS
from holdfast.core.event import Span
from holdfast.core.plurals import counted
from holdfast.errors import StoreError, StreamFull
from holdfast.ports.facts import Trouble
from holdfast.ports.parts import Appended, Appending, Closed, Elsewhere, Flush, Streams, pack
from holdfast.ports.telemetry import Telemetry

PAUSE = 0.05
"""Seconds between two appends of a worker, unless a caller waits for one."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

KNOWN = 10_000
"""Maximum number of streams whose ends are remembered."""


class Outlet:
    """Where one attempt sends its parts. Changed under the lock of its `Outlets`."""

    __slots__ = ("_waiting", "attempt", "epoch", "is_over", "key", "no", "run", "spans", "unsent")

    def __init__(self, no: int, run: str, epoch: int, key: str, attempt: int) -> None:
        self.no: int = no
        self.run: str = run
        self.epoch: int = epoch
        self.key: str = key
        self.attempt: int = attempt
        self.spans: dict[str, tuple[int, int]] = {}
        self.unsent: int = 0
        self.is_over: bool = False  # the attempt has ended, or its run is lost
        self._waiting: list[Callable[[], None]] = []

    @property
    def sent(self) -> tuple[Span, ...]:
        """Where its parts are."""
        return tuple(Span(name, self.attempt, first, end) for name, (first, end) in self.spans.items())

    def when_written(self, then: Callable[[], None]) -> None:
        """Calls `then` on the event loop once nothing waits to be written. On the event loop."""
        if self.unsent:
            self._waiting.append(then)
        else:
            then()

    def less(self, count: int) -> None:
        """That many parts no longer wait."""
        self.unsent -= count
        if not self.unsent:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                asyncio.get_running_loop().call_soon(then)


class _Stretch:
    """Consecutive parts of one outlet in a stream. Once sent to the store it never changes."""

    __slots__ = ("is_sealed", "outlet", "values")

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.values: list[bytes] = []
        self.is_sealed = False


class _Buffer:
    """The waiting parts of one stream, oldest first."""

    __slots__ = ("name", "parts", "size", "stretches")

    def __init__(self, name: str) -> None:
        self.name = name
        self.stretches: list[_Stretch] = []
        self.parts = 0
        self.size = 0

    def add(self, outlet: Outlet, data: bytes) -> None:
        if self.parts + 1 > MOST_PARTS or self.size + len(data) > MOST_BYTES:
            raise StreamFull(
                f"run {outlet.run}: {self.parts:,} parts of {self.size:,} bytes wait to be written to stream "
                f"{self.name!r}, at most {MOST_PARTS:,} and {MOST_BYTES:,}. The store is too slow: await "
                "flush() now and then, or send fewer and larger parts.",
                stream=self.name,
                parts=self.parts,
            )
        last = self.stretches[-1] if self.stretches else None
        if last is None or last.outlet is not outlet or last.is_sealed:
            last = _Stretch(outlet)
            self.stretches.append(last)
        last.values.append(data)
        self.parts += 1
        self.size += len(data)
        outlet.unsent += 1

    def drop(self, stretch: _Stretch) -> None:
        """Removes parts that were written, or never will be."""
        self.stretches.remove(stretch)
        self.parts -= len(stretch.values)
        self.size -= sum(map(len, stretch.values))


class _Sending(msgspec.Struct, frozen=True, gc=False):
    buffer: _Buffer
    stretch: _Stretch
    flush: Flush


class Outlets:
    """Everything that the bodies of one worker send."""

    def __init__(self, store: Streams, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry
        self._lock = threading.Lock()
        self._buffers: dict[tuple[int, int, str], _Buffer] = {}
        self._ends: dict[tuple[int, str], int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None  # the worker's, not that of a body that sends
        self._task: asyncio.Task[None] | None = None
        self._is_kicked = False
        self._is_urgent: asyncio.Event | None = None
        self._wrote_at = -PAUSE
        self._pause = FIRST_PAUSE
        self._aside: dict[int, float] = {}  # runs that the store did not take, until when

    def begin(self) -> None:
        """Starts on the worker's event loop, before the first body."""
        if self._is_urgent is None:
            self._loop = asyncio.get_running_loop()
            self._context = contextvars.copy_context()
            self._is_urgent = asyncio.Event()

    # -- from any thread -----------------------------------------------------------------------------------------------

    def send(self, outlet: Outlet, name: str, data: bytes) -> None:
        """Buffers a part. Raises CancelledError if nothing waits for the attempt now."""
        with self._lock:
            if outlet.is_over:
                raise asyncio.CancelledError(
                    f"run {outlet.run}: step {outlet.key} is no longer needed; let its body end"
                )
            place = (outlet.no, outlet.epoch, name)
            buffer = self._buffers.get(place)
            if buffer is None:
                buffer = self._buffers[place] = _Buffer(name)
            buffer.add(outlet, data)
            was_kicked, self._is_kicked = self._is_kicked, True
        if not was_kicked and self._loop is not None:
            with suppress(RuntimeError):  # the worker has stopped: nothing writes them
                self._loop.call_soon_threadsafe(self._kick)

    # -- on the event loop ---------------------------------------------------------------------------------------------

    async def flush(self, outlet: Outlet) -> None:
        """Returns when everything sent so far is durable. Raises CancelledError if it never will be."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not written.done():  # who waits may have given up
                written.set_result(None)

        outlet.when_written(done)
        self.hurry()
        await written
        if outlet.is_over:
            raise asyncio.CancelledError(f"run {outlet.run}: step {outlet.key} is no longer needed")

    def finish(self, outlet: Outlet, then: Callable[[], None]) -> None:
        """The body has ended: `then` is called once all its parts are durable, or never will be."""
        with self._lock:
            outlet.is_over = True
        outlet.when_written(then)
        self.hurry()

    def lose(self, outlet: Outlet) -> None:
        """The run is gone, or does not need the attempt: drops what was not written."""
        with self._lock:
            outlet.is_over = True
            for place, buffer in list(self._buffers.items()):
                for stretch in [x for x in buffer.stretches if x.outlet is outlet]:
                    buffer.drop(stretch)
                    outlet.unsent -= len(stretch.values)
                if not buffer.stretches:
                    del self._buffers[place]
        outlet.less(0)

    def hurry(self) -> None:
        """Writes soon: a caller waits."""
        if self._is_urgent is not None and self._buffers:
            self._is_urgent.set()
            self._kick()

    def close(self) -> None:
        """Drops what was not written: its attempts run again elsewhere."""
        if self._task is not None:
            self._task.cancel()

    def _kick(self) -> None:
        if self._task is None and self._loop is not None:
            self._task = self._loop.create_task(self._write_on(), name="holdfast streams", context=self._context)

    async def _write_on(self) -> None:
        assert self._loop is not None
        assert self._is_urgent is not None
        try:
            while True:
                left = self._wrote_at + PAUSE - self._loop.time()
                if left > 0:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._is_urgent.wait()
                self._is_urgent.clear()
                with self._lock:
                    self._is_kicked = bool(self._buffers)
                    batch = self._batch(self._loop.time())
                    if not self._is_kicked:
                        return
                self._wrote_at = self._loop.time()
                if batch:
                    await self._write(batch)
        finally:
            self._task = None

    def _batch(self, now: float) -> list[_Sending]:
        """All waiting parts, except those of runs that are retried separately. Parts sent meanwhile start a new
        stretch."""
        batch: list[_Sending] = []
        self._aside = {no: until for no, until in self._aside.items() if until > now}
        for (no, epoch, name), buffer in self._buffers.items():
            if no in self._aside:
                continue
            first = self._ends.get((no, name), 0)
            for stretch in buffer.stretches:
                stretch.is_sealed = True
                outlet, count = stretch.outlet, len(stretch.values)
                flush = Flush(
                    no=no,
                    run=outlet.run,
                    epoch=epoch,
                    name=name,
                    first=first,
                    step=outlet.key,
                    attempt=outlet.attempt,
                    packed=pack(stretch.values),
                    count=count,
                )
                batch.append(_Sending(buffer, stretch, flush))
                first += count
        return batch

    async def _write(self, batch: Sequence[_Sending]) -> None:
        """Writes all together. If the store refuses that, writes each run separately; one that fails again is retried
        later."""
        try:
            await self._append(batch)
        except Exception as error:  # noqa: BLE001 - a bug of an adapter must stop no other run
            runs = dict.fromkeys(sending.flush.no for sending in batch)
            failed: list[int] = []
            for no in runs:
                own = [sending for sending in batch if sending.flush.no == no]
                if len(runs) == 1 or not await self._is_taken(own):
                    failed.append(no)
            self._put_aside(failed, error)
        else:
            self._pause = FIRST_PAUSE

    async def _is_taken(self, own: Sequence[_Sending]) -> bool:
        try:
            await self._append(own)
        except Exception:  # noqa: BLE001 - see above
            return False
        return True

    def _put_aside(self, runs: Sequence[int], error: Exception) -> None:
        assert self._loop is not None
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        what = f"parts of {counted(len(runs), 'run')} not accepted, trying again in {pause:.2f} s"
        self._telemetry.tell(Trouble(what, error, is_known=isinstance(error, StoreError)))
        self._aside |= dict.fromkeys(runs, self._loop.time() + pause)

    async def _append(self, batch: Sequence[_Sending]) -> None:
        answers = await self._store.append([sending.flush for sending in batch])
        with self._lock:
            ended = [sending for sending, answer in zip(batch, answers, strict=True) if self._is_over(sending, answer)]
            for place in [place for place, buffer in self._buffers.items() if not buffer.stretches]:
                del self._buffers[place]
        for sending in ended:
            sending.stretch.outlet.less(sending.flush.count)
        if self._is_urgent is not None and any(isinstance(answer, Elsewhere) for answer in answers):
            self._is_urgent.set()  # at once, from the end that is known now

    def _is_over(self, sending: _Sending, answer: Appending) -> bool:
        """Handles an answer. Returns whether the parts no longer wait. Under the lock."""
        buffer, stretch, flush = sending.buffer, sending.stretch, sending.flush
        place, outlet = (flush.no, flush.name), stretch.outlet
        if isinstance(answer, Elsewhere):
            self._remember(place, answer.end)
            return False
        if isinstance(answer, Appended):
            self._remember(place, flush.end)
        if stretch not in buffer.stretches:  # it is no longer wanted
            return False
        buffer.drop(stretch)
        if isinstance(answer, Closed):
            outlet.is_over = True
        else:
            begin, _ = outlet.spans.get(flush.name, (flush.first, 0))
            outlet.spans[flush.name] = (begin, flush.end)
        return True

    def _remember(self, place: tuple[int, str], end: int) -> None:
        self._ends.pop(place, None)
        self._ends[place] = end
        if len(self._ends) > KNOWN:
            del self._ends[next(iter(self._ends))]
