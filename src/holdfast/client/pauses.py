"""What `app.run` does when its run is paused.

An operator's pause is waited out, and told once. Any other pause is raised: it needs different code, or a decision of
an operator, and neither comes from the process that waits.
"""

from __future__ import annotations

from holdfast.core.doing import Occupation, decode_doing
from holdfast.errors import RunPaused, Stuck
from holdfast.ports.facts import RunPutOff
from holdfast.ports.runs import RunRow
from holdfast.ports.telemetry import Telemetry

_WAITS = "paused by an operator{why}; app.run waits until it is resumed: holdfast resume {run}"
_NEXT = "More: holdfast show {run}. Once the cause is gone: holdfast resume {run}, then run this again."


class Pauses:
    """The pauses that one call meets. Call it with the row of a paused run."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._is_told = False

    def __call__(self, row: RunRow) -> None:
        cause = _cause(row)
        if cause.name != "operator":
            raise _error(row.id, cause)
        if not self._is_told:
            self._is_told = True
            why = f" ({cause.detail})" if cause.detail else ""
            self._telemetry.tell(RunPutOff(row.id, "paused", _WAITS.format(why=why, run=row.id)))


def _cause(row: RunRow) -> Occupation:
    """Why the run is paused, as its row says it."""
    found = [now for now in decode_doing(row.doing).now if now.kind == "paused"]
    return found[0] if found else Occupation("paused", "operator")


def _error(run: str, cause: Occupation) -> RunPaused:
    kind = Stuck if cause.name == "stuck" else RunPaused
    error = kind(f"run {run} is paused ({cause.name}): {cause.detail}", run_id=run, reason=cause.name)
    error.add_note(_NEXT.format(run=run))
    return error
