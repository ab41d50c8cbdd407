"""Problems with the queues of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.client.client import Client
from holdfast.client.inspect.deadlocks import blocked_in, deadlock_words
from holdfast.client.inspect.finding import Finding, first_of
from holdfast.client.queues import queue_views
from holdfast.core.plurals import counted


async def queue_findings(client: Client) -> AsyncIterator[Finding]:
    """Queues whose places are held by parents of runs that need one, or by parked runs, that are paused while runs
    wait, or that cannot be read."""
    odd: list[Finding] = []
    with_rules = 0
    for view in await queue_views(client):
        with_rules += bool(view.is_declared or view.overrides or view.is_paused)
        if view.problem:
            odd.append(Finding("queues", "problem", view.problem))
        elif view.at_once and view.begun >= view.at_once and (found := await blocked_in(client.store, view.name)):
            odd.append(Finding("queues", "problem", deadlock_words(view.name, found, view.at_once)))
        elif view.at_once and not view.frees_parked and view.parked * 2 >= view.at_once:
            text = (
                f"{view.name}: {view.parked} of {view.at_once} places belong to runs that only wait. Raise at_once, or "
                'declare the queue with parked="frees"'
            )
            odd.append(Finding("queues", "warning", text))
        elif view.is_paused and view.waiting:
            odd.append(
                Finding(
                    "queues", "warning", f"{view.name}: {view.held_back}, with {counted(view.waiting, 'run')} waiting"
                )
            )
    for finding in first_of(odd):
        yield finding
    if with_rules:
        yield Finding("queues", "ok", f"{with_rules} with rules")
