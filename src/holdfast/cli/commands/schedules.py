"""`holdfast schedules`: lists schedules and when they run next, with commands to change them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from holdfast.cli.options import ListGroup, actor_option, operator_options, store_options
from holdfast.cli.output import Output, Part
from holdfast.cli.parameters import moment
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client import schedules
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.client.inspect.objects import at_text
from holdfast.client.schedules import MOST_SLOTS, ScheduleView
from holdfast.core.instants import earlier

_NAME = click.argument("name", metavar="SCHEDULE")


@click.group("schedules", cls=ListGroup)
def command() -> None:
    """Schedules: list them, pause one, resume it, start a run of it now, start the slots of a range, remove it.

    \b
      holdfast schedules
      holdfast schedules pause nightly --reason "stock-taking"
      holdfast schedules backfill nightly --since 3d
    """


@command.command("list", cls=HoldfastCommand)
@store_options("One object per line.")
def list_(target: str | None, url: str | None, is_json: bool) -> None:
    """List schedules: when they run, what is next and last, and what was missed.

    In a pipe one line each, tab-separated: name, state, next slot, last slot (UTC), missed, skipped, workflow, when.
    """
    run_async(_list(target, url, Output(is_json=is_json)))


@command.command("pause", cls=HoldfastCommand)
@operator_options(_NAME, has_reason=True)
def pause(name: str, target: str | None, url: str | None, is_json: bool, reason: str, actor: str | None) -> None:
    """Pause a schedule: no slot is taken until it is resumed. Its open runs continue."""
    run_async(_pause(name, target, url, Output(is_json=is_json), reason, actor))


@command.command("resume", cls=HoldfastCommand)
@operator_options(_NAME)
def resume(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Resume a paused schedule from now on. Slots of the pause are not started."""
    run_async(_resume(name, target, url, Output(is_json=is_json), actor))


@command.command("trigger", cls=HoldfastCommand)
@operator_options(_NAME)
@click.option("--id", "mark", metavar="ID", help="Id of this trigger; the same id starts one run.")
def trigger(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None, mark: str | None) -> None:
    """Start a run of a schedule now, and print its id."""
    run_async(_trigger(name, target, url, Output(is_json=is_json), actor, mark))


@command.command("backfill", cls=HoldfastCommand)
@_NAME
@store_options("One object per slot.")
@click.option(
    "--since", required=True, type=moment, metavar="TIME", help="First slot: an instant, or 2d for 2 days ago."
)
@click.option("--until", type=moment, metavar="TIME", help="Before this instant. [now]")
@click.option("--most", type=click.IntRange(1, MOST_SLOTS), default=100, show_default=True,
              help="Start nothing if the range has more slots.")  # fmt: skip
@actor_option
def backfill(
    name: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    since: timedelta | datetime,
    until: timedelta | datetime | None,
    most: int,
    actor: str | None,
) -> None:
    """Start the slots of a range as if they were due now, one line each: slot, outcome, run."""
    run_async(_backfill(name, target, url, Output(is_json=is_json), (since, until or timedelta(0)), most, actor))


@command.command("remove", cls=HoldfastCommand)
@operator_options(_NAME)
def remove(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Remove a schedule. Its runs stay. One that an app declares comes back with the next worker that starts."""
    run_async(_remove(name, target, url, Output(is_json=is_json), actor))


async def _list(target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        found = [view async for view in schedules.views(client)]
    if out.is_json:
        for view in found:
            out.record(schedule_object(view))
        return
    rows: list[tuple[Part, ...]] = [
        (view.name, _state(view), _at(view.next), _at(view.last), str(view.missed), str(view.skipped), view.workflow,
         view.in_words)
        for view in found
    ]  # fmt: skip
    if rows:
        out.table(("SCHEDULE", "STATE", "NEXT", "LAST", "MISSED", "SKIPPED", "WORKFLOW", "WHEN"), rows)
    elif out.is_terminal:
        out.line(("no schedules; declare some: App(schedules=[…])", "dim"))


async def _pause(name: str, target: str | None, url: str | None, out: Output, reason: str, actor: str | None) -> None:
    async with opened_client(target, url, actor) as client:
        handle = await schedules.get(client, name, None)
        await handle.pause(reason)
        audited(client.actor, "schedules pause", detail=name)
        view = await handle.view()
    _show(view, out)


async def _resume(name: str, target: str | None, url: str | None, out: Output, actor: str | None) -> None:
    async with opened_client(target, url, actor) as client:
        handle = await schedules.get(client, name, None)
        await handle.resume()
        audited(client.actor, "schedules resume", detail=name)
        view = await handle.view()
    _show(view, out)


def _show(view: ScheduleView, out: Output) -> None:
    if out.is_json:
        out.record(schedule_object(view))
        return
    following = f", next {_at(view.next)}" if view.next else ""
    out.line(("schedule ", "dim"), (view.name, "bold"), " ", _state(view), following)


async def _trigger(
    name: str, target: str | None, url: str | None, out: Output, actor: str | None, mark: str | None
) -> None:
    async with opened_client(target, url, actor) as client:
        run = await (await schedules.get(client, name, None)).trigger(id=mark)
        audited(client.actor, "schedules trigger", run.id)
    out.record({"schedule": name, "run": run.id}) if out.is_json else out.line(run.id)


async def _backfill(
    name: str,
    target: str | None,
    url: str | None,
    out: Output,
    span: tuple[timedelta | datetime, timedelta | datetime],
    most: int,
    actor: str | None,
) -> None:
    async with opened_client(target, url, actor) as client:
        handle = await schedules.get(client, name, None)
        since, until = (_instant(client, at) for at in span)
        audited(client.actor, "schedules backfill", detail=f"{name}, {_at(since)} to {_at(until)}")
        async for slot in handle.backfill(since, until, most=most):
            if out.is_json:
                out.record({"at": _at(slot.at), "run": slot.run, "fate": slot.fate})
            else:
                out.table((), [(_at(slot.at), slot.fate, slot.run)])


async def _remove(name: str, target: str | None, url: str | None, out: Output, actor: str | None) -> None:
    async with opened_client(target, url, actor) as client:
        await (await schedules.get(client, name, None)).remove()
        audited(client.actor, "schedules remove", detail=name)
    out.record({"schedule": name, "removed": True}) if out.is_json else out.line(f"schedule {name} removed")


def schedule_object(view: ScheduleView) -> dict[str, Any]:
    """A schedule for programs; instants are in UTC."""
    shown: dict[str, Any] = msgspec.to_builtins(view)
    return {**shown, "next": _at(view.next), "last": _at(view.last), "upcoming": [_at(slot) for slot in view.upcoming]}


def _instant(client: Client, given: timedelta | datetime) -> datetime:
    return given if isinstance(given, datetime) else earlier(client.store.clock.now(), given)


def _state(view: ScheduleView) -> Part:
    if view.paused:
        return (f"paused: {view.reason}" if view.reason else "paused", "yellow")
    if not view.is_declared:
        return ("undeclared", "yellow")
    return ("active", "green") if view.next else ("over", "dim")


def _at(at: datetime | None) -> str:
    return "" if at is None else at_text(at.astimezone(UTC))
