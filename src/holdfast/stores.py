"""Opens the store of an address. Adapters are imported when they are chosen."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec

from holdfast.client.client import Client
from holdfast.client.inspect.finding import Finding
from holdfast.client.inspect.managers import LeaseReport, lease_findings, read_leases
from holdfast.config import LeaseSettings, StoreSettings
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.ports.blob_home import BlobHome
from holdfast.ports.condition import Schema
from holdfast.ports.grants import Grants
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry

MOST_MARK: Final = (1 << 62) - 1


async def open_store(
    url: str, settings: StoreSettings | None = None, *, blobs: str | None = None, telemetry: Telemetry | None = None
) -> Store:
    """The store of an address, with its blobs where they belong. Adapters are imported when they are chosen."""
    chosen = settings or StoreSettings()
    home = home_of(url, blobs or chosen.blobs, is_shared=chosen.shared, telemetry=telemetry)
    store = await _open_store(url, chosen, telemetry)
    try:
        mark = await store.mark("folder")
        if home is None and not mark:
            return store
        from holdfast.adapters.blobs.housed_store import open_home

        return await open_home(store, home, mark)
    except BaseException:
        await store.close()
        raise


def home_of(url: str, address: str, *, is_shared: bool, telemetry: Telemetry | None = None) -> BlobHome | None:
    """The home that `blobs=` names; None for "store". Raises `InvalidInput` if the address is wrong, or cannot work for
    all workers of the store at `url`."""
    if address == "store":
        return None
    if address.startswith("s3:"):
        from holdfast.adapters.s3 import S3Home, parse_s3_address

        return S3Home(parse_s3_address(address), tell=None if telemetry is None else telemetry.tell)
    from holdfast.adapters.blobs.folder import folder_of
    from holdfast.adapters.blobs.folder_home import FolderHome

    if url.startswith("postgres") and not is_shared:
        raise InvalidInput(
            f"blobs={address!r}: on PostgreSQL workers are on many machines, and every one must see the same "
            "folder. If they do, set [store] shared = true; if not, keep blobs in the store or in S3."
        )
    return FolderHome(folder_of(address))


async def _open_store(url: str, chosen: StoreSettings, telemetry: Telemetry | None) -> Store:
    how: dict[str, Any] = {"auto_migrate": chosen.auto_migrate, "max_connections": chosen.max_connections}
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        from holdfast.adapters.memory.store import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from holdfast.adapters.sqlite.store import open_sqlite

        return await open_sqlite(url, tell=None if telemetry is None else telemetry.tell, **how)
    if scheme in {"postgresql", "postgres"}:
        from holdfast.adapters.postgres import open_postgres

        return await open_postgres(url, telemetry=telemetry, **how)
    known = "memory://, sqlite:///path.db, sqlite:///:memory:, postgresql://user@host/database"
    raise InvalidInput(f"no store for {scheme + '://' if rest else url!r}; use one of: {known}")


async def open_grants(settings: LeaseSettings, ttl: timedelta, mark: int | None = None) -> OpenedGrants | None:
    """The lease manager that the configuration names; None if the store grants its leases itself. Raises `StoreRefused`
    if it cannot be used, or if its prefix belongs to a store with another `mark`."""
    if settings.type == "store":
        return None
    grants = await asyncio.to_thread(_new_grants, settings, ttl)
    try:
        await grants.open(mark)
    except BaseException:
        await grants.close()
        raise
    return grants


def _new_grants(settings: LeaseSettings, ttl: timedelta) -> OpenedGrants:
    """A manager of that type. Adapters are imported when they are chosen."""
    from holdfast.adapters.leases import Endpoints, read_secret

    endpoints = Endpoints(
        addresses=settings.endpoints,
        user=settings.user,
        password=read_secret("password_file", settings.password_file),
        token=read_secret("token_file", settings.token_file),
        credentials=settings.credentials,
        ca=settings.ca,
        certificate=settings.certificate,
        private_key=settings.private_key,
    )
    if settings.type == "etcd":
        from holdfast.adapters.etcd import EtcdGrants

        return EtcdGrants(endpoints, prefix=settings.prefix, ttl=ttl)
    from holdfast.adapters.nats import NatsGrants

    return NatsGrants(endpoints, bucket=settings.bucket, replicas=settings.replicas, prefix=settings.prefix, ttl=ttl)


class OpenedGrants(Grants, Protocol):
    """A manager that is a separate server."""

    async def open(self, mark: int | None = None) -> None:
        """Raises `StoreRefused` if it cannot be used, or belongs to a store with another mark. Changes nothing."""
        ...

    async def own(self, mark: int) -> None:
        """Claims it for the store with that mark. Raises `StoreRefused` if it belongs to another."""
        ...


@asynccontextmanager
async def granting(
    given: Grants | None, settings: LeaseSettings, ttl: timedelta, client: Client, *, owns: bool = True
) -> AsyncGenerator[Grants | None]:
    """The lease manager beside the store for the duration of the block: the one given to the app, the configured one,
    or None. Raises `StoreRefused` if it cannot be used. `owns`: records in the manager and in the store that they
    belong together."""
    if given is not None or settings.type == "store":
        yield given
        return
    mark = await client.store.mark("leases", secrets.randbelow(MOST_MARK) + 1 if owns else 0)
    grants = await open_grants(settings, ttl, mark)
    assert grants is not None
    try:
        if owns:
            await grants.own(mark)
        yield grants
    finally:
        await grants.close()


async def lease_service_findings(settings: LeaseSettings, client: Client) -> list[Finding]:
    """Findings about the configured lease manager: members, holders, clocks, disagreements with the store, or why it
    cannot be used. Empty if there is none. Changes nothing."""
    try:
        async with granting(None, settings, settings.ttl, client, owns=False) as grants:
            if grants is None:
                return []
            return [finding async for finding in lease_findings(grants, client.store, settings.ttl)]
    except HoldfastError as error:
        return [Finding("leases", "problem", str(error))]


async def lease_service_report(settings: LeaseSettings, client: Client, *, most: int) -> LeaseReport:
    """The report on the lease manager, for programs and pages. Changes nothing. `most`: the maximum number of grants to
    compare with the store."""
    try:
        async with granting(None, settings, settings.ttl, client, owns=False) as grants:
            if grants is None:
                return LeaseReport("store")
            return await read_leases(grants, client.store, settings.ttl, most=most)
    except HoldfastError as error:
        return LeaseReport(settings.type, problem=str(error))


async def schema_of(url: str) -> Schema | None:
    """The schema of the store at an address, without changing it; None for a store without one."""
    if url.startswith("sqlite:"):
        from holdfast.adapters.sqlite.open_checks import schema_of as sqlite_schema

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
    """Why there is nothing to read at an address; None if there is a store. Creates nothing."""
    if url.startswith("sqlite:"):
        from holdfast.adapters.sqlite.location import locate

        path = locate(url).path
        if not path.exists():
            return MissingStore(f"there is no store at {url} (no file {path}).", "Is the path right?")
        if path.is_file() and path.stat().st_size == 0:
            hint = "Is the path right? A worker, a start or `holdfast migrate` creates one."
            return MissingStore(f"there is no store at {url} (the file {path} is empty).", hint)
    elif url.startswith("postgres"):
        schema = await schema_of(url)
        if schema is not None and schema.version == 0:
            from holdfast.adapters.postgres.address import parse_address

            place = parse_address(url)
            text = f"there is no store in schema {place.schema!r} of {place.url}."
            return MissingStore(text, "Is the address right? A worker, a start or `holdfast migrate` creates one.")
    return None
