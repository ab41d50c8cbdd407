"""The options of a worker."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from holdfast.config import RecoverySettings, UpkeepSettings
from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.instants import LONGEST_WAIT
from holdfast.errors import InvalidInput
from holdfast.ports.leases import WorkerRow


class WorkerOptions(msgspec.Struct, frozen=True):
    """Checked settings of one worker."""

    id: str
    is_configured: bool
    instance: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    concurrency: int = 100
    queues: tuple[str, ...] = ("default",)
    ttl: timedelta = timedelta(seconds=15)
    poll: timedelta = timedelta(seconds=1)
    sweep: timedelta = timedelta(minutes=5)
    blob_grace: timedelta = timedelta(days=1)
    grace: timedelta = timedelta(seconds=30)
    batch: int = 100
    look: timedelta = timedelta(milliseconds=125)
    """Maximum pause between two checks for writes of other processes. It limits how long a run started by another
    process waits for an idle worker."""
    patience: timedelta | None = timedelta(seconds=2)
    """How long the event loop may be blocked before the watchdog reports the cause. None: no watchdog."""
    recovery: RecoverySettings = msgspec.field(default_factory=RecoverySettings)
    on_loss: Literal["store", "stop"] = "store"
    """What a worker does while its lease manager does not answer."""

    def row(self, definitions: tuple[tuple[str, str], ...], started_at: datetime) -> WorkerRow:
        """The row of a worker of this process that starts now."""
        return WorkerRow(
            instance=self.instance,
            worker=self.id,
            queues=self.queues,
            definitions=definitions,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_at=started_at,
        )


def worker_options(
    *,
    id: str | None = None,
    concurrency: int = 100,
    queues: tuple[str, ...] | list[str] | None = None,
    declared: Iterable[str] = (),
    ttl: Duration = "15s",
    poll: Duration = "1s",
    grace: Duration = "30s",
    recovery: RecoverySettings | None = None,
    upkeep: UpkeepSettings | None = None,
    on_loss: Literal["store", "stop"] = "store",
) -> WorkerOptions:
    """Options from user settings. A configured `id` must be used by one live worker only; `{hostname}` in it is the
    name of this host. Without `queues` it serves "default" and those that its app declares."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidInput(f"concurrency={concurrency!r}: give at least one slot")
    if queues is None:
        queues = tuple(dict.fromkeys(("default", *declared)))
    if isinstance(queues, str):
        raise InvalidInput(f"queues={queues!r}: give a list of names, such as [{queues!r}]")
    if not queues:
        raise InvalidInput("queues=[]: a worker serves at least one queue")
    lease = parse_duration(ttl, what="ttl", most=LONGEST_WAIT)
    interval = parse_duration(poll, what="poll", most=LONGEST_WAIT)
    if interval <= timedelta(0) or interval * 2 > lease:
        raise InvalidInput(
            f"a lease of {format_duration(lease)} leaves no room for two polls of {format_duration(interval)}: "
            "raise ttl or lower poll"
        )
    chosen = upkeep or UpkeepSettings()
    host = socket.gethostname()
    name = f"{host}-{os.getpid()}" if id is None else check_name(id.replace("{hostname}", host), "worker id")
    return WorkerOptions(
        id=name,
        is_configured=id is not None,
        concurrency=concurrency,
        queues=tuple(check_name(queue, "queue") for queue in queues),
        ttl=lease,
        poll=interval,
        sweep=chosen.sweep_interval,
        blob_grace=chosen.blob_grace,
        grace=parse_duration(grace, what="grace", most=LONGEST_WAIT),
        recovery=recovery or RecoverySettings(),
        on_loss=on_loss,
    )
