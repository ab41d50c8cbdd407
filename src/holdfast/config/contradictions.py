"""Contradictions between settings, and keys that have no effect yet: rejected by name before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.config.keys import keys, shown
from holdfast.config.settings import Configuration, LeaseSettings
from holdfast.core.durations import format_duration
from holdfast.core.ids import check_name
from holdfast.errors import InvalidConfig, InvalidId

LEAST_TTL = timedelta(seconds=2)
NATS_KEYS = ("bucket", "replicas", "token_file", "credentials")
MANAGER_KEYS = (
    *("endpoints", "on_loss", "prefix", "user", "password_file", "ca", "certificate", "private_key"),
    *NATS_KEYS,
)
EXAMPLES = {"etcd": "http://etcd-1:2379", "nats": "nats://nats-1:4222"}
BUCKET = re.compile(r"[A-Za-z0-9_-]+")
PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def check(settings: Configuration, origins: Mapping[str, str]) -> None:
    """Raises `InvalidConfig`, which names the keys and where each was set."""

    def said(name: str) -> str:
        value = settings
        for part in name.split("."):
            value = getattr(value, part)
        return f"{keys()[name].label} = {shown(value)} ({origins[name]})"

    if settings.app and settings.discover:
        raise InvalidConfig(f"{said('app')} contradicts {said('discover')}: set one of them")
    _check_blobs(settings.store.blobs, said, origins)
    if settings.store.shared and not settings.store.blobs.startswith("file:"):
        raise InvalidConfig(f"{said('store.shared')} applies to a folder of blobs only, and blobs are kept elsewhere")
    _check_leases(settings.leases, said)
    for name, length in _lengths(settings).items():
        if length <= timedelta(0):
            raise InvalidConfig(f"{said(name)}: must be longer than zero")
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
            f'{said("store.blobs")}: use "store", a folder such as "file:///shared/folder", or "s3://bucket/prefix"'
        )
    if "@" in blobs.partition("?")[0]:  # not repeated: it may be a secret
        raise InvalidConfig(f"[store] blobs ({origins['store.blobs']}): an s3:// address must not contain keys")


def _check_leases(leases: LeaseSettings, said: Callable[[str], str]) -> None:
    if leases.type == "store":
        _refuse_keys(leases, MANAGER_KEYS, said)
        return
    if leases.type == "etcd":
        _refuse_keys(leases, NATS_KEYS, said)
    if not leases.endpoints:
        raise InvalidConfig(f'{said("leases.type")} needs [leases] endpoints, such as ["{EXAMPLES[leases.type]}"]')
    if not PREFIX.fullmatch(leases.prefix):
        raise InvalidConfig(f"{said('leases.prefix')}: use letters, digits and ._- between single slashes")
    if leases.ttl < LEAST_TTL:
        raise InvalidConfig(f"{said('leases.ttl')}: {leases.type} counts in whole seconds, and takes two at least")
    if not BUCKET.fullmatch(leases.bucket):
        raise InvalidConfig(f"{said('leases.bucket')}: use letters, digits, _ and -")
    logins = [name for name in ("user", "token_file", "credentials") if getattr(leases, name)]
    if len(logins) > 1:
        raise InvalidConfig(f"{' and '.join(said(f'leases.{name}') for name in logins)}: choose one way to log in")
    if bool(leases.user) != bool(leases.password_file):
        raise InvalidConfig(f"{said('leases.user')} and {said('leases.password_file')} belong together")
    if bool(leases.certificate) != bool(leases.private_key):
        raise InvalidConfig(f"{said('leases.certificate')} and {said('leases.private_key')} belong together")


def _refuse_keys(leases: LeaseSettings, names: tuple[str, ...], said: Callable[[str], str]) -> None:
    """Refuses keys that this type of leases does not have."""
    for name in names:
        if getattr(leases, name) != getattr(LeaseSettings(), name):
            raise InvalidConfig(
                f"{said(f'leases.{name}')} contradicts {said('leases.type')}: leases of type {leases.type!r} have no "
                f"{name}"
            )


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
