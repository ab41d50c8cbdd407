"""Flows that a store knows and this process was not given: served once their components are here."""

from __future__ import annotations

from holdfast.authoring.registry import Registry
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


class Definitions:
    """The definitions of one worker."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def learn(self, row: RunRow) -> bool:
        """Serves the flow of a run that no live worker has, if its components are here."""
        if await self._store.blob_kind(row.code) != "definition":
            return False
        spec = self._registry.learn(await self._store.get_blob(row.code))
        if self._registry.executable(spec) is None:
            return False
        self._registry.learn(spec.definition, is_served=True)
        return True
