"""Joins: rules over counts that say when a split is decided, and the code that runs its branches.

A rule never looks at results, only at how many branches succeeded, failed and still run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from holdfast.core.durations import Duration, parse_duration
from holdfast.errors import InvalidInput, SplitFailed

T = TypeVar("T")

Verdict = Literal["wait", "pass", "fail"]


@dataclass(frozen=True, slots=True)
class Join:
    """How many branches of a split have to succeed. All but `all()` stop the rest once that is decided."""

    kind: Literal["all", "any", "quorum", "percentage", "partial", "partial_timeout"]
    count: int = 0
    share: float = 0.0
    limit: timedelta | None = None

    @staticmethod
    def all() -> Join:
        """Every branch; if one fails, the others still run to their end."""
        return Join("all")

    @staticmethod
    def any() -> Join:
        """The first success."""
        return Join("any")

    @staticmethod
    def quorum(count: int) -> Join:
        """That many successes, or the split fails."""
        return Join("quorum", count=_at_least_one(count, "quorum"))

    @staticmethod
    def percentage(share: float) -> Join:
        """That share of the branches, above 0 and at most 1, rounded up."""
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InvalidInput(f"Join.percentage({share!r}): give a share above 0 and at most 1")
        return Join("percentage", share=float(share))

    @staticmethod
    def partial(count: int) -> Join:
        """The first that many successes, whatever happens to the others."""
        return Join("partial", count=_at_least_one(count, "partial"))

    @staticmethod
    def partial_timeout(limit: Duration) -> Join:
        """The branches that have succeeded after that long, if at least one branch has finished."""
        return Join("partial_timeout", limit=parse_duration(limit, what="Join.partial_timeout()"))

    def needed(self, branches: int) -> int:
        """How many successes decide the split."""
        match self.kind:
            case "all" | "partial_timeout":
                return branches
            case "any":
                return 1
            case "percentage":
                return math.ceil(self.share * branches - 1e-9)
            case "quorum" | "partial":
                return self.count

    def problem(self, branches: int) -> str:
        """Why it cannot work with that many branches; empty if it can."""
        if self.kind == "all" or branches >= max(1, self.needed(branches)):
            return ""
        return f"Join.{self.kind} needs {max(1, self.needed(branches))} of {branches} branches"

    def verdict(self, branches: int, succeeded: int, failed: int, *, is_late: bool = False) -> Verdict:
        """The verdict for these counts. `is_late`: the time of `partial_timeout` is over."""
        running = branches - succeeded - failed
        if self.kind == "partial_timeout":
            if running and not is_late:
                return "wait"
            return "pass" if succeeded + failed else "fail"
        needed = self.needed(branches)
        if self.kind == "all":
            return "wait" if running else "pass" if succeeded == needed else "fail"
        if succeeded >= needed:
            return "pass"
        return "fail" if succeeded + running < needed else "wait"


def _at_least_one(count: int, what: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"Join.{what}({count!r}): give a whole number of at least 1")
    return count


async def run_branches(
    branches: Sequence[Callable[[], Coroutine[Any, Any, T]]],
    join: Join,
    bulkhead: int | None,
    decided: Callable[[], None] = lambda: None,
) -> list[T]:
    """Runs the branches, at most `bulkhead` at a time. Returns the results of those that succeeded, in their order.
    `decided` is called before the remaining branches are stopped because their outcome no longer matters."""
    total = len(branches)
    gate = asyncio.Semaphore(bulkhead or max(1, total))

    async def guarded(branch: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with gate:
            return await branch()

    tasks = [asyncio.ensure_future(guarded(branch)) for branch in branches]
    loop = asyncio.get_running_loop()
    until = None if join.limit is None else loop.time() + join.limit.total_seconds()
    try:
        while True:
            done = [task for task in tasks if task.done()]
            failed = [task for task in done if task.cancelled() or task.exception() is not None]
            late = until is not None and loop.time() >= until
            match join.verdict(total, len(done) - len(failed), len(failed), is_late=late):
                case "pass":
                    decided()
                    return [task.result() for task in tasks if task in done and task not in failed]
                case "fail":
                    decided()
                    raise SplitFailed(_say(join, total, len(done) - len(failed), failed))
                case "wait":
                    left = None if until is None else max(0.0, until - loop.time())
                    running = [task for task in tasks if not task.done()]
                    await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left_over = [task for task in tasks if not task.done()]
        for task in left_over:
            task.cancel()
        if left_over:
            await asyncio.wait(left_over)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # an unwanted error is not reported as never retrieved


def _say(join: Join, total: int, succeeded: int, failed: Sequence[asyncio.Future[Any]]) -> str:
    errors = [task.exception() if not task.cancelled() else asyncio.CancelledError() for task in failed[:3]]
    shown = "; ".join(f"{type(error).__name__}: {error}" for error in errors)
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    said = f": {shown}{more}" if shown else ""
    return f"{succeeded} of {total} branches succeeded, Join.{join.kind} needs {max(1, join.needed(total))}{said}"
