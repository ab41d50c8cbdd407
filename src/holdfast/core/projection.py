"""The columns of a run's row that are derived from its journal. They always equal the fold; `verify` compares."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.doing import encode_now
from holdfast.core.run import Run
from holdfast.core.status import Status


class Projection(msgspec.Struct, frozen=True, gc=False):
    """What a commit may change in a run's row. The rest is fixed when the run is created, or is the instant of the
    turn's row: `updated_at`, and `ended_at` of an end."""

    workflow: str
    version: str
    status: Status
    doing: bytes
    started_at: datetime | None


def project(run: Run) -> Projection:
    """The projection of a fold."""
    return Projection(
        run.workflow,
        run.version,
        run.status,
        encode_now(run),
        run.started_at,
    )
