"""Open resources: opened in order, closed in reverse, with their health.

A worker has one set for all its bodies, a standalone machine one for each run.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Generator, Iterable
from typing import Any, TypeVar, cast

from holdfast.authoring.script.resources import Health, Resource
from holdfast.errors import HoldfastError, NotAllowedHere

T = TypeVar("T")

LOG = logging.getLogger("holdfast.resources")


class OpenResources:
    """Opened values by definition. A value that a test put in place is neither opened nor closed."""

    def __init__(self, replaced: dict[int, Any] | None = None) -> None:
        self._opened: dict[int, Any] = dict(replaced or {})
        self._generators: list[tuple[Resource[Any], Any]] = []

    def replace(self, of: Resource[T], value: T) -> None:
        """Uses this value from now on. What was opened stays open until the end."""
        self._opened[id(of)] = value

    async def open(self, resources: Iterable[Resource[Any]]) -> None:
        """Opens them in order; those that are open stay open."""
        for one in resources:
            if id(one) in self._opened:
                continue
            generator: Any = one.function()
            try:
                if inspect.isasyncgen(generator):
                    value = await cast("AsyncGenerator[Any, None]", generator).__anext__()
                else:
                    value = next(cast("Generator[Any, None, None]", generator))
            except (StopIteration, StopAsyncIteration):
                raise HoldfastError(f"resource {one.name} did not yield anything") from None
            self._generators.append((one, generator))
            self._opened[id(one)] = value

    async def close(self) -> list[Exception]:
        """Closes the resources in reverse, each regardless of the others. Returns the errors."""
        errors: list[Exception] = []
        while self._generators:
            one, generator = self._generators.pop()
            self._opened.pop(id(one), None)
            try:
                if inspect.isasyncgen(generator):
                    await generator.__anext__()
                else:
                    next(generator)
            except (StopIteration, StopAsyncIteration):
                continue
            except Exception as error:  # noqa: BLE001 the others still have to be closed
                LOG.warning("resource %s did not close: %r", one.name, error)
                errors.append(error)
        return errors

    def get(self, of: object) -> Any:
        try:
            return self._opened[id(of)]
        except KeyError:
            raise NotAllowedHere(
                f"{of!r} is not open: the worker opens the resources that its workflows' steps name. Give it to the "
                "app: App(resources=[…])"
            ) from None

    async def health(self) -> dict[str, Health]:
        """The health of each resource. One without its own check is healthy while it is open."""
        return {one.name: await one.ask(self._opened[id(one)]) for one, _ in self._generators}


def worst(found: dict[str, Health]) -> Health:
    """The health of the whole: that of its worst part."""
    if "unhealthy" in found.values():
        return "unhealthy"
    return "degraded" if "degraded" in found.values() else "healthy"
