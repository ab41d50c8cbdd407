"""A suite is a class of cases, each with a fresh store and a clock that the case moves.

The cases are coroutines, but pytest sees plain functions: the suite runs each on its own event loop. So it needs only
pytest, and works with any plugin for async tests.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.ports.runs import Filter, Page
from holdfast.testing.conformance.world import START, World

__all__ = ["Blocking", "Suite", "shows"]

Case = TypeVar("Case", bound=Callable[..., Any])


@runtime_checkable
class HasRows(Protocol):
    """A store that has runs with a journal; a single port has no rows to compare."""

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """See `ports.runs`."""
        ...


@runtime_checkable
class Closes(Protocol):
    """Something that can be closed."""

    async def close(self) -> None:
        """See `ports.store`."""
        ...


async def _close(store: Closes) -> None:
    await store.close()


class Blocking:
    """Cases that are coroutines, called by pytest as plain functions, on the loop of `runner`."""

    runner: asyncio.Runner

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, case in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(case):
                setattr(cls, name, _blocking(case))


class Suite(Blocking, ABC):
    """Cases about one port. Subclass it as `Test…` and define how your store is opened."""

    @abstractmethod
    async def open(self, clock: VirtualClock, folder: Path) -> Any:
        """A new, empty store that uses `clock`. `folder` is empty too, and belongs to the case. An object with the
        methods of the ports that the suite asks for is enough: the guide to writing a store names them."""
        ...

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[World]:
        """Contract of every case: at its end each row equals the fold of its journal."""
        clock = VirtualClock(START)
        with asyncio.Runner() as runner:
            self.runner = runner
            store = runner.run(self.open(clock, tmp_path))
            try:
                world = World(store, clock)
                yield world
                if isinstance(store, HasRows):
                    runner.run(world.verify())
            finally:
                if isinstance(store, Closes):
                    runner.run(_close(store))


def _blocking(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The case as pytest calls it: its name, parameters and marks, on the loop its fixtures were made on."""

    @functools.wraps(case)
    def run(self: Blocking, *args: Any, **named: Any) -> None:
        async def play() -> None:
            await case(self, *args, **named)

        self.runner.run(play())

    return run


def shows(*rows: str) -> Callable[[Case], Case]:
    """Names the rows of docs/explanation/specification.md that a case shows. Not a pytest mark: marks must be declared
    by the project that runs the case, which need not know ours."""

    def same(case: Case) -> Case:
        return case

    return same
