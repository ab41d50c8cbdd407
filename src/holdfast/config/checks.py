"""What settings must not say together, and what nothing honours yet: refused by name, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.config.keys import keys, shown
from holdfast.config.settings import Configuration
from holdfast.core.durations import format_duration
from holdfast.core.ids import check_name
from holdfast.errors import InvalidConfig, InvalidId


def check(settings: Configuration, origins: Mapping[str, str]) -> None:
    """`InvalidConfig` names the keys and where each was said."""

    def said(name: str) -> str:
        value = settings
        for part in name.split("."):
            value = getattr(value, part)
        return f"{keys()[name].label} = {shown(value)} ({origins[name]})"

    if settings.app and settings.discover:
        raise InvalidConfig(f"{said('app')} contradicts {said('discover')}: name an app, or let workflows be found")
    _check_blobs(settings.store.blobs, said, origins)
    if settings.store.shared and not settings.store.blobs.startswith("file:"):
        raise InvalidConfig(f"{said('store.shared')} is about a folder of blobs, and blobs are kept elsewhere")
    if settings.leases.type != "store":
        raise InvalidConfig(f'{said("leases.type")}: leases outside the store are not there yet; use "store"')
    if settings.leases.endpoints:
        raise InvalidConfig(f"{said('leases.endpoints')} contradicts {said('leases.type')}: the store has none")
    for name, length in _lengths(settings).items():
        if length <= timedelta(0):
            raise InvalidConfig(f"{said(name)}: longer than nothing")
    if settings.worker.poll * 2 > settings.leases.ttl:
        raise InvalidConfig(
            f"{said('leases.ttl')} contradicts {said('worker.poll')}: a lease of "
            f"{format_duration(settings.leases.ttl)} leaves no room for two polls; raise ttl or lower poll"
        )
    if not settings.worker.queues:
        raise InvalidConfig(f"{said('worker.queues')}: a worker serves at least one queue")
    _check_names(settings, origins)


def _check_blobs(blobs: str, said: Callable[[str], str], origins: Mapping[str, str]) -> None:
    if blobs == "store" or blobs.startswith("file:///"):
        return
    if not blobs.startswith("s3://"):
        raise InvalidConfig(
            f'{said("store.blobs")}: "store", a folder such as "file:///shared/folder", or "s3://bucket/prefix"'
        )
    if "@" in blobs.partition("?")[0]:  # not repeated: it may be a secret
        raise InvalidConfig(f"[store] blobs ({origins['store.blobs']}): an s3:// address takes no keys")


def _lengths(settings: Configuration) -> dict[str, timedelta]:
    return {
        "leases.ttl": settings.leases.ttl,
        "worker.poll": settings.worker.poll,
        "recovery.check_interval": settings.recovery.check_interval,
        "upkeep.sweep_interval": settings.upkeep.sweep_interval,
    }


def _check_names(settings: Configuration, origins: Mapping[str, str]) -> None:
    try:
        if settings.worker.id:
            check_name(settings.worker.id, f"{origins['worker.id']}: [worker] id")
        for queue in settings.worker.queues:
            check_name(queue, f"{origins['worker.queues']}: [worker] queues")
    except InvalidId as error:
        raise InvalidConfig(str(error)) from None
