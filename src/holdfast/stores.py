"""The store of an address: adapters are imported where they are chosen."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.config import StoreSettings
from holdfast.errors import InvalidInput
from holdfast.ports.condition import Schema
from holdfast.ports.store import Store


async def open_store(url: str, settings: StoreSettings | None = None, *, blobs: str | None = None) -> Store:
    """The store of an address, its blobs where they are to be; adapters are imported where they are chosen."""
    chosen = settings or StoreSettings()
    address = blobs or chosen.blobs
    folder = None
    if address != "store":
        from holdfast.adapters.blobs.folder import folder_of

        if url.startswith("postgres") and not chosen.shared:
            raise InvalidInput(
                f"blobs={address!r}: on PostgreSQL workers are on many machines, and every one must see the same "
                "folder. If they do, say [store] shared = true; if not, keep blobs in the store."
            )
        folder = folder_of(address)
    store = await _open_store(url, chosen)
    try:
        mark = await store.folder_mark()
        if folder is None and not mark:
            return store
        from holdfast.adapters.blobs.elsewhere import with_blobs_in

        return await with_blobs_in(store, folder, mark)
    except BaseException:
        await store.close()
        raise


async def _open_store(url: str, chosen: StoreSettings) -> Store:
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        from holdfast.adapters.memory.store import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from holdfast.adapters.sqlite.store import open_sqlite

        return await open_sqlite(url, auto_migrate=chosen.auto_migrate, max_connections=chosen.max_connections)
    if scheme in {"postgresql", "postgres"}:
        from holdfast.adapters.postgres import open_postgres

        return await open_postgres(url, auto_migrate=chosen.auto_migrate, max_connections=chosen.max_connections)
    known = "memory://, sqlite:///path.db, sqlite:///:memory:, postgresql://user@host/database"
    raise InvalidInput(f"no store for {scheme + '://' if rest else url!r}; use one of: {known}")


async def schema_of(url: str) -> Schema | None:
    """The schema of the store at an address, without changing it; None for a store that has none."""
    if url.startswith("sqlite:"):
        from holdfast.adapters.sqlite.opening import schema_of as sqlite_schema

        return await asyncio.to_thread(sqlite_schema, url)
    if url.startswith(("postgresql:", "postgres:")):
        from holdfast.adapters.postgres.store import schema_of as postgres_schema

        return await asyncio.to_thread(postgres_schema, url)
    return None


class MissingStore(msgspec.Struct, frozen=True):
    """There is no store at an address: what is missing, and what to do."""

    text: str
    hint: str


async def missing_store(url: str) -> MissingStore | None:
    """Why there is nothing to read at an address; None if there is a store. Nothing is made."""
    if url.startswith("sqlite:"):
        from holdfast.adapters.sqlite.location import locate

        path = locate(url).path
        if not path.exists():
            return MissingStore(f"there is no store at {url} (no file {path}).", "Is the path right?")
    elif url.startswith("postgres"):
        schema = await schema_of(url)
        if schema is not None and schema.version == 0:
            from holdfast.adapters.postgres.address import parse_address

            place = parse_address(url)
            text = f"there is no store in schema {place.schema!r} of {place.url}."
            return MissingStore(text, "Is the address right? A worker, a start or `holdfast migrate` makes one.")
    return None
