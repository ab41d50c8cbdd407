"""The result of an act on a run in a few words; empty if it did what its name says."""

from __future__ import annotations

from holdfast.authoring.handle import RunView
from holdfast.core.status import Status


def cancelled(before: RunView, after: RunView) -> str:
    if before.status is Status.CANCELLED:
        return "it was already cancelled"
    return "" if after.status.is_terminal else "cancelling; it ends after its clean-up"


def killed(before: RunView, after: RunView) -> str:
    return "it had already ended" if before.status.is_terminal else ""


def paused(before: RunView, after: RunView) -> str:
    if before.status is Status.PAUSED:
        return "it was already paused"
    return "" if after.status is Status.PAUSED else "pausing; its worker pauses it when its running steps end"


def resumed(before: RunView, after: RunView) -> str:
    return "" if before.status is Status.PAUSED else "it was not paused: nothing changed"
