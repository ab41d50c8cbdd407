"""Every setting that has a name outside the code, with its type and its default. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

DEFAULT_URL = "sqlite:///holdfast.db"

NotNegative = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are kept. `max_connections` limits the connections of a process: for reading on SQLite, in total on
    PostgreSQL."""

    url: str = DEFAULT_URL
    auto_migrate: bool = True
    max_connections: AtLeastOne = 10
    blobs: str = "store"
    shared: bool = False


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who grants leases, and for how long. The heartbeat is a third of `ttl`.

    The rest configures a manager outside the store: its address, the `prefix` under which it keeps the leases of this
    store, how to log in (`password_file`, `token_file`, `credentials`, `ca`, `certificate` and `private_key` are
    paths), and whether workers use the store's leases when it does not answer ("store") or claim nothing until it does
    ("stop"). `bucket`, its `replicas`, `token_file` and `credentials` are for NATS.
    """

    type: Literal["store", "etcd", "nats"] = "store"
    endpoints: tuple[str, ...] = ()
    ttl: timedelta = timedelta(seconds=15)
    on_loss: Literal["store", "stop"] = "store"
    prefix: str = "holdfast"
    bucket: str = "holdfast"
    replicas: AtLeastOne = 1
    user: str = ""
    password_file: str = ""
    token_file: str = ""
    credentials: str = ""
    ca: str = ""
    certificate: str = ""
    private_key: str = ""


class RecoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker takes over the runs of others. Heartbeats and start-up recovery continue whatever `enabled` says.

    The numbers limit one pass; passes follow each other without waiting while slots are free and work is left. Without
    start-up recovery (0) a restarted worker waits until its earlier lease expires, like any other.
    """

    enabled: bool = True
    check_interval: timedelta = timedelta(seconds=5)
    max_startup_recovery: NotNegative = 100
    max_claims_per_check: AtLeastOne = 10


class UpkeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a store small. An app may set the first three for its own runs, a workflow `keep`.

    `keep`: how long ended runs stay ("forever": None). `snapshot_every` and `compact_after`: rows of a run between two
    snapshots (0: none), and before its journal is compacted (0: only when asked for). `sweep_interval`: how often
    workers look for what can be removed; `blob_grace`: how long an unused blob is kept.
    """

    keep: timedelta | None = timedelta(days=30)
    snapshot_every: NotNegative = 1000
    compact_after: NotNegative = 10_000
    sweep_interval: timedelta = timedelta(minutes=5)
    blob_grace: timedelta = timedelta(days=1)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The process that `holdfast worker` runs. An empty `id`: a name made from host and process."""

    id: str = ""
    concurrency: AtLeastOne = 100
    queues: tuple[str, ...] = ("default",)
    poll: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=30)


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP API and the page. `tokens` is the file of `holdfast tokens`; `allowed_hosts` are host names it answers
    for besides its own; with a `session_key`, sessions survive restarts and are shared by several processes."""

    tokens: str = "holdfast-tokens.json"
    allowed_hosts: tuple[str, ...] = ()
    session_key: str = ""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. `app` names an app, or `discover` names folders with workflows."""

    app: str = ""
    discover: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ("**/test_*.py", "**/*_run.py")
    store: StoreSettings = StoreSettings()
    leases: LeaseSettings = LeaseSettings()
    recovery: RecoverySettings = RecoverySettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    worker: WorkerSettings = WorkerSettings()
    http: HttpSettings = HttpSettings()
