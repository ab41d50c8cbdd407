"""`holdfast queues`: what waits, what has begun and what holds runs back; and commands to change queues."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from holdfast.cli.options import ListGroup, actor_option, operator_options, store_options
from holdfast.cli.output import Output, Part, ago_text
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client import queues
from holdfast.client.audit import audited
from holdfast.client.inspect.objects import at_text
from holdfast.client.queues import QueueView

_NAME = click.argument("name", metavar="QUEUE")
_NONE = "none"


@click.group("queues", cls=ListGroup)
def command() -> None:
    """Queues: list them, pause one, resume it, change its rules, reset them to what workers declare.

    \b
      holdfast queues
      holdfast queues pause emails --reason "provider is down"
      holdfast queues set emails --at-once 5 --rate 20/m
      holdfast queues reset emails
    """


@command.command("list", cls=HoldfastCommand)
@store_options("One object per line.")
def list_(target: str | None, url: str | None, is_json: bool) -> None:
    """List queues: what waits and since when, what has begun, the rules, and what holds runs back.

    In a pipe one line each, tab-separated: name, waiting, begun, parked, since (UTC), rate, at once, what holds back.
    """
    run_async(_list(target, url, Output(is_json=is_json)))


@command.command("pause", cls=HoldfastCommand)
@operator_options(_NAME, has_reason=True)
def pause(name: str, target: str | None, url: str | None, is_json: bool, reason: str, actor: str | None) -> None:
    """Pause a queue: none of its runs begins until it is resumed. Those that have begun continue."""
    run_async(_act("pause", name, target, url, Output(is_json=is_json), actor, {"reason": reason}))


@command.command("resume", cls=HoldfastCommand)
@operator_options(_NAME)
def resume(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Resume a paused queue."""
    run_async(_act("resume", name, target, url, Output(is_json=is_json), actor, {}))


@command.command("set", cls=HoldfastCommand)
@_NAME
@click.option("--at-once", metavar="N|none", help="Maximum active runs: begun and not ended.")
@click.option("--per-worker", metavar="N|none", help="Maximum active runs of each worker.")
@click.option("--rate", metavar="RATE|none", help="Maximum rate at which runs begin, such as 100/m.")
@click.option(
    "--share", "shares", multiple=True, metavar="SHARE=WEIGHT", help="Weight of a share, such as gold=3. Repeatable."
)
@click.option("--share-at-once", metavar="N|none", help="Like --at-once, for each share.")
@click.option("--parked", type=click.Choice(["holds", "frees"]), help="Whether a run that only waits keeps its place.")
@store_options()
@actor_option
def set_(
    name: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    actor: str | None,
    shares: tuple[str, ...],
    **given: Any,
) -> None:
    """Change rules of a queue. They override what workers declare, until `holdfast queues reset`."""
    rules = {what: _rule(what, value) for what, value in given.items() if value is not None}
    if shares:
        rules["shares"] = dict(map(_weight, shares))
    if not rules:
        raise click.UsageError(
            "nothing to set: give --at-once, --per-worker, --rate, --share, --share-at-once or --parked"
        )
    run_async(_act("set", name, target, url, Output(is_json=is_json), actor, rules))


@command.command("reset", cls=HoldfastCommand)
@operator_options(_NAME)
def reset(name: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Return to the rules that workers declare. A paused queue stays paused."""
    run_async(_act("reset", name, target, url, Output(is_json=is_json), actor, {}))


_ACTS: dict[str, Any] = {
    "pause": queues.pause_queue,
    "resume": queues.resume_queue,
    "set": queues.set_rules,
    "reset": queues.reset_rules,
}


async def _list(target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        found, now = await queues.queue_views(client), client.store.clock.now()
    if out.is_json:
        for view in found:
            out.record(queue_object(view))
        return
    rows: list[tuple[Part, ...]] = [
        (view.name, str(view.waiting), str(view.begun), str(view.parked), _since(view, now, out), view.rate,
         "" if view.at_once is None else str(view.at_once), (view.held_back, "yellow"))
        for view in found
    ]  # fmt: skip
    out.table(("QUEUE", "WAITING", "BEGUN", "PARKED", "OLDEST", "RATE", "AT ONCE", "HELD BACK BY"), rows)


async def _act(
    verb: str, name: str, target: str | None, url: str | None, out: Output, actor: str | None, given: dict[str, Any]
) -> None:
    async with opened_client(target, url, actor) as client:
        await _ACTS[verb](client, name, **given)
        audited(client.actor, f"queues {verb}", detail=name)
        view = await queues.queue_view(client, name)
    if out.is_json:
        out.record(queue_object(view))
        return
    out.line(("queue ", "dim"), (view.name, "bold"), " ", ", ".join(_rules(view)) or "has no rules")


def queue_object(view: QueueView) -> dict[str, Any]:
    """A queue for programs; instants are in UTC."""
    return {**queues.view_object(view), "since": _at(view.since), "next_at": _at(view.next_at)}


def _rules(view: QueueView) -> list[str]:
    found = [
        ("paused", view.is_paused),
        (f"at_once {view.at_once}", view.at_once is not None),
        (f"per_worker {view.per_worker}", view.per_worker is not None),
        (f"rate {view.rate}", bool(view.rate)),
        (f"share_at_once {view.share_at_once}", view.share_at_once is not None),
        (f"shares {', '.join(f'{share}={weight:g}' for share, weight in view.shares.items())}", bool(view.shares)),
        ("parked frees", view.frees_parked),
        (f"set by hand: {', '.join(view.overrides)}", bool(view.overrides)),
    ]
    return [text for text, is_so in found if is_so]


def _rule(what: str, value: str) -> Any:
    if value == _NONE:
        return None
    if what in {"rate", "parked"}:
        return value
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(f"--{what.replace('_', '-')} {value}: a whole number, or none") from None


def _weight(text: str) -> tuple[str, float]:
    share, _, weight = text.rpartition("=")
    try:
        return share, float(weight)
    except ValueError:
        raise click.UsageError(f"--share {text}: SHARE=WEIGHT, such as gold=3") from None


def _since(view: QueueView, now: datetime, out: Output) -> str:
    if view.since is None:
        return ""
    return ago_text(now - view.since) if out.is_terminal else _at(view.since)


def _at(at: datetime | None) -> str:
    return "" if at is None else at_text(at.astimezone(UTC))
