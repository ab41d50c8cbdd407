"""What waits under limits, and what may wait forever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

from holdfast.client.client import Client
from holdfast.client.inspect.finding import LISTED, Finding, first_of
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted
from holdfast.ports.limits import PlaceView
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store

LONG = timedelta(hours=1)
"""A step that waits longer than this may wait forever."""

PAGE = 100
DEPTH = 20
"""Maximum number of ancestors of a run to check."""


async def waits_of(store: Store, run: RunRow) -> list[str]:
    """What a run waits for under limits: the limit, how many are before it, and about how long. If an ancestor has a
    place there, it adds that the two may block each other."""
    waits = [place for place in await store.places_of(run.id) if place.ahead is not None]
    if not waits:
        return []
    above = await _held_above(store, run)
    return [_wait(place, store, above.get((place.name, place.key))) for place in waits[:LISTED]]


def _wait(place: PlaceView, store: Store, holder: str | None) -> str:
    key = f" ({place.key})" if place.key else ""
    about = ""
    if place.about_at is not None:
        left = max(place.about_at - store.clock.now(), timedelta(0))
        about = f", about {format_duration(timedelta(seconds=round(left.total_seconds())) or timedelta(seconds=1))}"
    text = f"step {place.step} waits for limit {place.name}{key}: {place.ahead} before it{about}"
    if holder is None:
        return text
    return (
        f"{text}. Run {holder}, above it, has a place there: if that waits for this run, neither continues. "
        f"Cancel one, raise the limit (holdfast limits set {place.name} …), and give the two different limits"
    )


async def _held_above(store: Store, run: RunRow) -> dict[tuple[str, str], str]:
    """The places of the run's ancestors."""
    held: dict[tuple[str, str], str] = {}
    parent = run.parent
    for _ in range(DEPTH):
        above = await store.get(parent) if parent else None
        if above is None:
            break
        for place in await store.places_of(above.id):
            if place.ahead is None:
                held.setdefault((place.name, place.key), above.id)
        parent = above.parent
    return held


async def limit_findings(client: Client) -> AsyncIterator[Finding]:
    """Limits that are paused, or under which steps wait for long; then the number of limits."""
    store, count, odd, after = client.store, 0, list[Finding](), ""
    while page := await store.limits(after=after, limit=PAGE):
        after = page[-1].name
        for stored in page:
            count += 1
            lines = await store.lines(stored.name, limit=PAGE)
            waiting = sum(line.waiting for line in lines)
            if stored.is_paused and waiting:
                text = f"paused, and {counted(waiting, 'step')} wait. Resume it: holdfast limits resume {stored.name}"
                odd.append(Finding("limits", "warning", f"{stored.name}: {text}"))
                continue
            for line in lines:
                waited = timedelta(0) if line.oldest is None else store.clock.now() - line.oldest
                if waited > LONG:
                    key = f" ({line.key})" if line.key else ""
                    text = (
                        f"{counted(line.waiting, 'step')} wait, the first for {format_duration(waited)}; "
                        f"{counted(line.held, 'place')} taken. Do the holders wait for what waits here?"
                    )
                    odd.append(Finding("limits", "warning", f"{stored.name}{key}: {text}"))
    for finding in first_of(odd):
        yield finding
    if count:
        yield Finding("limits", "ok", str(count))
