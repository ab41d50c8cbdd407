"""Limits as a client sees them: what is held and waits, and what people change by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.ids import check_text
from holdfast.core.limit import LimitState, make_rule, rate_text
from holdfast.errors import DefinitionError, InvalidInput
from holdfast.ports.limits import Line, StoredLimit
from holdfast.upkeep import limit_book

if TYPE_CHECKING:
    from holdfast.client.client import Client

PAGE = 100
"""Lines read together."""


class PlaceHolder(msgspec.Struct, frozen=True):
    """A place that is taken: by that step of that run."""

    run: str
    step: str


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a limit: running attempts, waiting steps, and when the next may begin if the rate or a pause delays
    it."""

    key: str
    held: int
    waiting: int
    next: datetime | None
    oldest: datetime | None = None
    """Since when the first of the steps waits."""


class BusyLineView(LineView, frozen=True, kw_only=True):
    """A key of a limit and the runs that hold its places: the first few if there are many."""

    places: tuple[PlaceHolder, ...] = ()


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as it is now, over all its keys."""

    name: str
    rate: str
    burst: int
    at_once: int | None
    held: int
    waiting: int
    next: datetime | None
    """When the next attempt may begin, if the rate or a pause delays it."""
    keys: int
    """Keys with running or waiting attempts."""
    paused: bool
    reason: str
    """Why it is paused."""
    by_hand: bool
    """Whether an operator set it: then it ignores what the code declares until it is reset."""


async def views(client: Client) -> AsyncIterator[LimitView]:
    """Every limit of the store, by name."""
    after = ""
    while True:
        page = await client.store.limits(after=after, limit=PAGE)
        for stored in page:
            yield await _view(client, stored)
        if len(page) < PAGE:
            return
        after = page[-1].name


async def view(client: Client, name: str) -> LimitView:
    """The limit of that name. Raises `LimitNotFound` if there is none."""
    return await _view(client, await _stored(client, name))


async def keys(client: Client, name: str, *, after: str | None = None, limit: int = PAGE) -> list[LineView]:
    """The keys of a limit with running or waiting attempts."""
    await _stored(client, name)
    found = await client.store.lines(name, after=after, limit=limit)
    return [
        LineView(key=line.key, held=line.held, waiting=line.waiting, next=line.next_at, oldest=line.oldest)
        for line in found
    ]


async def busiest(client: Client, name: str, *, limit: int = 20) -> list[BusyLineView]:
    """The keys of a limit with most steps waiting, most first, and who holds their places."""
    await _stored(client, name)
    return [
        BusyLineView(
            key=one.line.key,
            held=one.line.held,
            waiting=one.line.waiting,
            next=one.line.next_at,
            oldest=one.line.oldest,
            places=tuple(PlaceHolder(place.run, place.step) for place in one.places),
        )
        for one in await client.store.busiest(name, limit=limit)
    ]


async def set_rule(
    client: Client, name: str, *, rate: str | None = None, burst: int | None = None, at_once: int | None = None
) -> LimitView:
    """Sets what the limit allows, until it is reset. Values that are not given stay. It applies at once, on every
    worker."""
    if rate is None and burst is None and at_once is None:
        raise InvalidInput(f"limit {name}: nothing to set. Give a rate, a burst or at_once.")
    known = (await _stored(client, name)).rule
    try:
        kept_rate = rate_text(known) or None
        given = make_rule(
            f"limit {name}",
            kept_rate if rate is None else rate,
            burst,
            known.at_once if at_once is None else at_once,
        )
    except DefinitionError as error:
        raise InvalidInput(str(error)) from None
    rule = msgspec.structs.replace(
        given,
        interval=given.interval if rate is not None else known.interval,
        burst=given.burst if rate is not None or burst is not None else known.burst,
    )
    stored = await limit_book.change(client.store, name, lambda state: msgspec.structs.replace(state, by_hand=rule))
    return await _view(client, stored)


async def reset(client: Client, name: str) -> LimitView:
    """Makes the limit follow what the code declares again."""
    stored = await limit_book.change(client.store, name, lambda state: msgspec.structs.replace(state, by_hand=None))
    return await _view(client, stored)


async def pause(client: Client, name: str, reason: str = "") -> LimitView:
    """Pauses the limit: no attempt begins under it until it is resumed. Running attempts continue."""
    check_text(reason, "reason")

    def decide(state: LimitState) -> LimitState:
        return state if state.is_paused else msgspec.structs.replace(state, is_paused=True, reason=reason)

    return await _view(client, await limit_book.change(client.store, name, decide))


async def resume(client: Client, name: str) -> LimitView:
    """Resumes the limit. Attempts begin in the order in which they wait."""
    stored = await limit_book.change(
        client.store, name, lambda state: msgspec.structs.replace(state, is_paused=False, reason="")
    )
    return await _view(client, stored)


async def _stored(client: Client, name: str) -> StoredLimit:
    stored = await client.store.limit(check_text(name, "the name of a limit"))
    if stored is None:
        raise limit_book.missing(client.store, name)
    return stored


async def _view(client: Client, stored: StoredLimit) -> LimitView:
    lines: list[Line] = []
    while True:
        page = await client.store.lines(stored.name, after=lines[-1].key if lines else None, limit=PAGE)
        lines += page
        if len(page) < PAGE:
            break
    times = [line.next_at for line in lines if line.next_at is not None]
    state = limit_book.state_of(stored)
    return LimitView(
        name=stored.name,
        rate=rate_text(stored.rule),
        burst=stored.rule.burst,
        at_once=stored.rule.at_once,
        held=sum(line.held for line in lines),
        waiting=sum(line.waiting for line in lines),
        next=min(times, default=None),
        keys=len(lines),
        paused=stored.is_paused,
        reason=state.reason,
        by_hand=state.by_hand is not None,
    )
