"""What bodies send: batched, in order, kept through lost answers and wrong guesses, bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.event import Span
from holdfast.engine.outlets import Outlet, Outlets
from holdfast.errors import StoreUnavailable, StreamFull
from holdfast.ports.parts import Appended, Appending, Closed, Elsewhere, Flush, unpack


class Sink(MemoryStore):
    """Keeps what is appended in a list a stream; the next calls answer or fail as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Sequence[Flush]] = []
        self.rows: dict[tuple[int, str], list[str]] = {}
        self.faults: list[str] = []
        self.closed: set[int] = set()

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        self.batches.append(batch)
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            raise StoreUnavailable("away")
        answers = [self._append(flush) for flush in batch]
        if fault == "lost":
            raise StoreUnavailable("the answer was lost")
        return answers

    def _append(self, flush: Flush) -> Appending:
        if flush.no in self.closed:
            return Closed()
        rows = self.rows.setdefault((flush.no, flush.name), [])
        values = [bytes(part).decode() for part in unpack(flush.packed)]
        if rows[flush.first : flush.end] == values:
            return Appended()
        if flush.first != len(rows):
            return Elsewhere(len(rows))
        rows.extend(values)
        return Appended()


def outlet(no: int = 1, key: str = "ask", attempt: int = 1) -> Outlet:
    return Outlet(no, f"run-{no}", 1, key, attempt)


@pytest.fixture
async def sink() -> Sink:
    return Sink()


@pytest.fixture
async def outlets(sink: Sink) -> Outlets:
    made = Outlets(sink, logged())
    made.begin()
    return made


async def test_what_is_sent_together_is_one_append(outlets: Outlets, sink: Sink) -> None:
    """Promise: parts of many runs and streams that wait share one call, each stream in its order."""
    one, two = outlet(1), outlet(2)
    for number in range(100):
        outlets.send(one, "tokens", b"%d" % number)
        outlets.send(two, "log", b"%d" % number)
    await outlets.flush(one)
    await outlets.flush(two)
    assert len(sink.batches) == 1
    assert sink.rows[1, "tokens"] == sink.rows[2, "log"] == [str(number) for number in range(100)]
    assert one.sent == (Span("tokens", 1, 0, 100),)


async def test_a_wrong_guess_is_corrected(outlets: Outlets, sink: Sink) -> None:
    """Promise: parts land after what is there, whoever wrote that, and the outlet knows where."""
    sink.rows[1, "tokens"] = ["earlier", "too"]
    ours = outlet()
    outlets.send(ours, "tokens", b"1")
    await outlets.flush(ours)
    sink.rows[1, "tokens"].append("between")
    outlets.send(ours, "tokens", b"2")
    await outlets.flush(ours)
    assert sink.rows[1, "tokens"] == ["earlier", "too", "1", "between", "2"]
    assert ours.sent == (Span("tokens", 1, 2, 5),)


@pytest.mark.parametrize("fault", ["refused", "lost"])
async def test_a_fault_loses_and_doubles_nothing(outlets: Outlets, sink: Sink, fault: str) -> None:
    """Promise: sent again unchanged until it is answered; what came meanwhile follows."""
    sink.faults = [fault, fault]
    ours = outlet()
    outlets.send(ours, "tokens", b"1")
    flushing = asyncio.ensure_future(outlets.flush(ours))
    await asyncio.sleep(0)
    outlets.send(ours, "tokens", b"2")
    await flushing
    await outlets.flush(ours)
    assert sink.rows[1, "tokens"] == ["1", "2"]


async def test_one_run_that_is_refused_does_not_stop_others(outlets: Outlets, sink: Sink) -> None:
    """Promise: if a call with several runs fails, each is tried by itself."""
    sink.faults = ["refused", "refused"]
    first, second = outlet(1), outlet(2)
    outlets.send(first, "tokens", b"1")
    outlets.send(second, "tokens", b"2")
    await outlets.flush(second)
    assert sink.rows == {(2, "tokens"): ["2"]}
    await outlets.flush(first)
    assert sink.rows[1, "tokens"] == ["1"]


async def test_a_lost_run_ends_its_outlet(outlets: Outlets, sink: Sink) -> None:
    """Promise: `Closed` is told to the body as a cancel, by flush and by the next send; whoever waits goes on."""
    sink.closed = {1}
    ours = outlet()
    outlets.send(ours, "tokens", b"1")
    with pytest.raises(asyncio.CancelledError):
        await outlets.flush(ours)
    with pytest.raises(asyncio.CancelledError):
        outlets.send(ours, "tokens", b"2")
    assert ours.sent == ()


async def test_an_outcome_comes_after_the_last_part(outlets: Outlets, sink: Sink) -> None:
    """Promise: `finish` calls back once everything is durable, and nothing can be sent any more."""
    sink.faults = ["refused"]
    ours = outlet()
    outlets.send(ours, "tokens", b"1")
    done = asyncio.Event()
    outlets.finish(ours, done.set)
    assert not done.is_set()
    with pytest.raises(asyncio.CancelledError):
        outlets.send(ours, "tokens", b"late")
    await asyncio.wait_for(done.wait(), 60)
    assert sink.rows[1, "tokens"] == ["1"]


async def test_what_nobody_wants_is_dropped(outlets: Outlets, sink: Sink) -> None:
    """Promise: a run that does without an attempt writes none of what it had left; others of the stream are written."""
    gone, kept = outlet(key="gone"), outlet(key="kept")
    outlets.send(gone, "tokens", b"1")
    outlets.send(kept, "tokens", b"2")
    outlets.lose(gone)
    await outlets.flush(kept)
    assert sink.rows[1, "tokens"] == ["2"]


async def test_a_full_buffer_refuses(outlets: Outlets) -> None:
    """Promise: 10,000 parts or 1 MB of a stream of a run; another stream has its own; writing makes room."""
    ours = outlet()
    for _ in range(10_000):
        outlets.send(ours, "tokens", b"1")
    with pytest.raises(StreamFull, match=r"10,000 parts .* wait to be written to stream 'tokens'.*await flush") as full:
        outlets.send(ours, "tokens", b"1")
    assert (full.value.stream, full.value.parts) == ("tokens", 10_000)
    outlets.send(ours, "log", b"1" * 999_999)
    with pytest.raises(StreamFull):
        outlets.send(ours, "log", b"11")
    await outlets.flush(ours)
    outlets.send(ours, "tokens", b"1")


async def test_threads_send_at_once(outlets: Outlets, sink: Sink) -> None:
    """Promise: from any thread; each keeps its order, and nothing is lost."""
    ours = [outlet(key=f"k{number}") for number in range(4)]

    def work(one: Outlet) -> None:
        for number in range(500):
            outlets.send(one, "tokens", f'"{one.key} {number}"'.encode())

    threads = [threading.Thread(target=work, args=(one,)) for one in ours]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    for one in ours:
        await outlets.flush(one)
    rows = sink.rows[1, "tokens"]
    assert len(rows) == 2000
    for one in ours:
        assert [x for x in rows if x.startswith(f'"{one.key} ')] == [f'"{one.key} {number}"' for number in range(500)]
