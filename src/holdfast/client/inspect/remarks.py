"""What an act on a run came to, in a few words: nothing to say if it did what its name says."""

from __future__ import annotations

from holdfast.authoring.handle import RunView
from holdfast.core.status import Status


def cancelled(before: RunView, after: RunView) -> str:
    """After a cancel."""
    if before.status is Status.CANCELLED:
        return "it had been cancelled before"
    return "" if after.status.is_terminal else "asked to stop; it ends after its clean-up"


def killed(before: RunView, after: RunView) -> str:
    """After a kill."""
    return "it had ended before" if before.status.is_terminal else ""


def paused(before: RunView, after: RunView) -> str:
    """After a pause."""
    if before.status is Status.PAUSED:
        return "it was paused before"
    return "" if after.status is Status.PAUSED else "asked to pause; its worker does when it falls quiet"


def resumed(before: RunView, after: RunView) -> str:
    """After a resume."""
    return "" if before.status is Status.PAUSED else "it was not paused: nothing done"
