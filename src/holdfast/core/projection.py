"""The columns of a run's row that are derived from its journal. They always equal the fold; `verify` compares."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.doing import encode_now
from holdfast.core.run import Run
from holdfast.core.status import Status


class Projection(msgspec.Struct, frozen=True, gc=False):
    """What a commit may change in a run's row. The rest is fixed when the run is created."""

    workflow: str
    version: str
    status: Status
    doing: bytes
    started_at: datetime | None
    updated_at: datetime
    ended_at: datetime | None


def project(run: Run) -> Projection:
    """The projection of a fold that has taken at least one turn."""
    assert run.updated_at is not None
    return Projection(
        run.workflow,
        run.version,
        run.status,
        encode_now(run),
        run.started_at,
        run.updated_at,
        run.ended_at,
    )
