"""How many of Holdfast's functions are entered: a figure that does not depend on how busy the machine is.

Every entry counts, in every thread, and so does a coroutine or generator that is resumed. Comprehensions and lambdas
are functions too.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import holdfast
from benchmarks.program import app_at, many, one
from benchmarks.throughput import finished

PACKAGE = str(Path(holdfast.__file__).parent)
STEPS = 20
"""A step's calls are the difference between runs with n steps and with 2n."""


TRIES = 5
"""How often each is counted. The least counts: an idle process looks at the log now and then, which is counted too."""


class Calls:
    """Entries of functions by file and name."""

    def __init__(self) -> None:
        self.by_code: Counter[CodeType] = Counter()

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_code.values())

    @property
    def files(self) -> int:
        """How many files they are in."""
        return len({code.co_filename for code in self.by_code})

    def by_package(self) -> Counter[str]:
        """Entries by the package under `holdfast`."""
        found: Counter[str] = Counter()
        for code, count in self.by_code.items():
            found[Path(code.co_filename).relative_to(PACKAGE).parts[0]] += count
        return found

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.by_code[frame.f_code] += 1


@contextmanager
def counted() -> Generator[Calls]:
    """The calls of the block, in this thread and in those it begins."""
    calls = Calls()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def counts(url: str) -> tuple[Calls, float]:
    """The calls of a start, one step and its result on a new store, and those that each further step adds."""
    async with app_at(url) as app, app.worker(concurrency=100, poll="100s", ttl="1h"):  # no look or beat in between
        await finished(app, [one(1), many(2)])
        await asyncio.sleep(0)

        async def of(work: Callable[[], Awaitable[object]]) -> Calls:
            with counted() as calls:
                await work()
            return calls

        runs = sorted([await of(lambda: finished(app, [one(1)])) for _ in range(TRIES)], key=lambda calls: calls.total)
        few = min([(await of(lambda: finished(app, [many(STEPS)]))).total for _ in range(TRIES)])
        more = min([(await of(lambda: finished(app, [many(2 * STEPS)]))).total for _ in range(TRIES)])
        return runs[0], (more - few) / STEPS


def said(calls: Calls, per_step: float, top: int = 0) -> Sequence[str]:
    """The table."""
    lines = [f"start + step + result: {calls.total} calls in {calls.files} files; each further step: {per_step:.0f}"]
    lines += [f"    {package:12} {count:4}" for package, count in calls.by_package().most_common()]
    for code, count in calls.by_code.most_common(top):
        place = f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_firstlineno}"
        lines.append(f"    {count:4}  {place} {code.co_qualname}")
    return lines
