"""`holdfast limits`: how many steps run and wait under each limit, and commands to change limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from holdfast.cli.options import ListGroup, actor_option, operator_options, store_options
from holdfast.cli.output import Output, Part
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client import limits
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.client.inspect.objects import at_text
from holdfast.client.limits import LimitView

_NAME = click.argument("name", metavar="LIMIT")


@click.group("limits", cls=ListGroup)
def command() -> None:
    """Limits on steps: list them, set one, follow the code again, pause one, resume it.

    \b
      holdfast limits
      holdfast limits set api --rate 10/s
      holdfast limits pause api --reason "their maintenance"
    """


@command.command("list", cls=HoldfastCommand)
@store_options("One object per line.")
def list_(target: str | None, url: str | None, is_json: bool) -> None:
    """List limits: what runs, what waits, what they allow, and when the next step may begin.

    In a pipe one line each, tab-separated: name, state, held, waiting, at once, rate, burst, keys, next (UTC).
    """
    run_async(_list(target, url, Output(is_json=is_json)))


@command.command("show", cls=HoldfastCommand)
@_NAME
@click.option("--busiest", is_flag=True, help="The 20 keys that most steps wait for, and which runs hold their places.")
@store_options("One object per line.")
def show(name: str, target: str | None, url: str | None, is_json: bool, busiest: bool) -> None:
    """Show the keys of a limit under which steps run or wait: key, held, waiting, next (UTC)."""
    shown = _show_busiest if busiest else _show_keys
    run_async(shown(name, target, url, Output(is_json=is_json)))


@command.command("set", cls=HoldfastCommand)
@_NAME
@store_options()
@click.option("--rate", metavar="RATE", help='How often steps begin, such as "50/s".')
@click.option("--burst", type=int, metavar="N", help="How many may begin together after a pause.")
@click.option("--at-once", type=int, metavar="N", help="How many run at the same time.")
@actor_option
def set_(
    name: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    rate: str | None,
    burst: int | None,
    at_once: int | None,
    actor: str | None,
) -> None:
    """Set what a limit allows, for every worker and at once. The change lasts until `holdfast limits reset`."""

    async def act(client: Client) -> LimitView:
        return await limits.set_rule(client, name, rate=rate, burst=burst, at_once=at_once)

    run_async(_act(act, "set", name, target, url, Output(is_json=is_json), actor))


@command.command("reset", cls=HoldfastCommand)
@operator_options(_NAME)
def reset(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Let a limit follow what the code declares again."""
    run_async(
        _act(lambda client: limits.reset(client, name), "reset", name, target, url, Output(is_json=is_json), actor)
    )


@command.command("pause", cls=HoldfastCommand)
@operator_options(_NAME, has_reason=True)
def pause(name: str, target: str | None, url: str | None, is_json: bool, reason: str, actor: str | None) -> None:
    """Pause a limit: no step begins under it until it is resumed. Those that run continue."""

    async def act(client: Client) -> LimitView:
        return await limits.pause(client, name, reason)

    run_async(_act(act, "pause", name, target, url, Output(is_json=is_json), actor))


@command.command("resume", cls=HoldfastCommand)
@operator_options(_NAME)
def resume(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Resume a paused limit. Steps begin in the order in which they wait."""
    run_async(
        _act(lambda client: limits.resume(client, name), "resume", name, target, url, Output(is_json=is_json), actor)
    )


async def _list(target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        found = [view async for view in limits.views(client)]
    if out.is_json:
        for view in found:
            out.record(limit_object(view))
        return
    rows: list[tuple[Part, ...]] = [
        (view.name, _state(view), str(view.held), str(view.waiting), _number(view.at_once), view.rate,
         str(view.burst) if view.rate else "", str(view.keys), _at(view.next))
        for view in found
    ]  # fmt: skip
    if rows:
        out.table(("LIMIT", "STATE", "HELD", "WAITING", "AT ONCE", "RATE", "BURST", "KEYS", "NEXT"), rows)
    elif out.is_terminal:
        out.line(("no limits; declare some: @step(limits=[Limit(…)])", "dim"))


async def _show_keys(name: str, target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        found = await limits.keys(client, name)
        while found and len(page := await limits.keys(client, name, after=found[-1].key)) > 0:
            found += page
    if out.is_json:
        for line in found:
            out.record({**msgspec.to_builtins(line), "next": _at(line.next), "oldest": _at(line.oldest)})
    elif found:
        rows: list[tuple[Part, ...]] = [
            (line.key or "(no key)", str(line.held), str(line.waiting), _at(line.next)) for line in found
        ]
        out.table(("KEY", "HELD", "WAITING", "NEXT"), rows)


async def _show_busiest(name: str, target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        found = await limits.busiest(client, name)
    if out.is_json:
        for line in found:
            out.record({**msgspec.to_builtins(line), "next": _at(line.next), "oldest": _at(line.oldest)})
    elif found:
        rows: list[tuple[Part, ...]] = [
            (line.key or "(no key)", str(line.held), str(line.waiting), _at(line.next),
             ", ".join(f"{place.run} {place.step}" for place in line.places))
            for line in found
        ]  # fmt: skip
        out.table(("KEY", "HELD", "WAITING", "NEXT", "HELD BY"), rows)


async def _act(
    act: Callable[[Client], Awaitable[LimitView]],
    verb: str,
    name: str,
    target: str | None,
    url: str | None,
    out: Output,
    actor: str | None,
) -> None:
    async with opened_client(target, url, actor) as client:
        view = await act(client)
        audited(client.actor, f"limits {verb}", detail=name)
    if out.is_json:
        out.record(limit_object(view))
        return
    allows = [f"at once {view.at_once}" if view.at_once else "", f"rate {view.rate}" if view.rate else ""]
    out.line(("limit ", "dim"), (view.name, "bold"), " ", _state(view), f": {', '.join(x for x in allows if x)}")


def limit_object(view: LimitView) -> dict[str, Any]:
    """A limit for programs; instants are in UTC."""
    return {**msgspec.to_builtins(view), "next": _at(view.next)}


def _state(view: LimitView) -> Part:
    if view.paused:
        return (f"paused: {view.reason}" if view.reason else "paused", "yellow")
    return ("set by hand", "yellow") if view.by_hand else ("declared", "green")


def _number(count: int | None) -> str:
    return "" if count is None else str(count)


def _at(at: datetime | None) -> str:
    return "" if at is None else at_text(at.astimezone(UTC))
