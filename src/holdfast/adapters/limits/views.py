"""Lines and waiters as users see them."""

from __future__ import annotations

from holdfast.adapters.limits.desk import Desk, Waiter
from holdfast.core.limit import Rule, token_at
from holdfast.core.turn import instant
from holdfast.ports.limits import Line, PlaceView


def line_of(desk: Desk, name: str, key: str, held: int, waiting: int, since: int | None) -> Line:
    """A line with its taken places, its number of waiters, and when the first of them came."""
    rule = _rule(desk, name)
    tat, quiet_until = desk.line(name, key)
    begin = max(quiet_until, token_at(rule, tat))
    next_at = instant(begin) if begin > desk.now else None
    oldest = None if since is None else instant(since)
    return Line(name=name, key=key, held=held, waiting=waiting, next_at=next_at, oldest=oldest)


def view_of(desk: Desk, run: str, waiter: Waiter, ahead: int) -> PlaceView:
    """A waiter, with the number of waiters before it."""
    rule = _rule(desk, waiter.name)
    tat, quiet_until = desk.line(waiter.name, waiter.key)
    about = max(desk.now, quiet_until, token_at(rule, max(tat, desk.now), ahead + 1))
    is_known = rule.at_once is None or quiet_until > desk.now
    return PlaceView(
        run=run,
        step=waiter.step,
        name=waiter.name,
        key=waiter.key,
        ahead=ahead,
        since=instant(waiter.since),
        about_at=instant(about) if is_known else None,
    )


def _rule(desk: Desk, name: str) -> Rule:
    found = desk.setting(name)
    return Rule() if found is None else found[0]
