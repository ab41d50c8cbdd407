"""Borrows a write transaction of the store for the duration of a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.ports.store import Store
from holdfast.ports.transactions import OpenTransaction, RolledBack, holding


async def borrow(store: Store, *, is_async: bool) -> OpenTransaction:
    """Begins a transaction for the calling code."""
    transaction = await store.transact(is_async=is_async)
    holding.set(transaction)
    return transaction


async def settle(transaction: OpenTransaction) -> None:
    """Commits, or raises the reason why nothing was kept."""
    settled = await transaction.commit()
    if isinstance(settled, RolledBack):
        raise settled.error


@asynccontextmanager
async def lent(store: Store) -> AsyncGenerator[Any]:
    """A connection of the store in a transaction: it commits at the end of the block and rolls back if that raises."""
    transaction = await borrow(store, is_async=True)
    try:
        yield transaction.connection
    except BaseException:
        await transaction.roll_back()
        raise
    await settle(transaction)
