"""Operators' actions on runs: `cancel`, `kill`, `pause`, `resume` and `retry` take several ids, or a filter.

For one run named by its id, the command prints its new status. For many runs it prints a count; the runs are chosen
before the first is changed, and a filter needs confirmation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from holdfast.authoring.handle import RunView
from holdfast.cli.live_workers import warn_without_worker
from holdfast.cli.options import actor_option, dry_run_option, find_run, store_options
from holdfast.cli.output import Output, standing
from holdfast.cli.parameters import pair
from holdfast.cli.progress import ProgressLine
from holdfast.cli.run_list import print_runs
from holdfast.cli.targets import CommandError, opened_client
from holdfast.client import bulk
from holdfast.client.audit import audited
from holdfast.client.bulk import MOST, Done, Verb
from holdfast.client.client import Client
from holdfast.client.client_run import ClientRun
from holdfast.client.inspect import remarks
from holdfast.client.inspect.objects import run_object
from holdfast.client.selection import WRITTEN, filter_of_words
from holdfast.core.plurals import counted
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

Function = TypeVar("Function", bound=Callable[..., Any])

SAMPLE = 20
"""Maximum number of runs that a dry run names."""

REMARKS: dict[Verb, Callable[[RunView, RunView], str]] = {
    "cancel": remarks.cancelled,
    "kill": remarks.killed,
    "pause": remarks.paused,
    "resume": remarks.resumed,
}
PAST: dict[Verb, str] = {
    "cancel": "cancel requested for",
    "kill": "killed",
    "pause": "pause requested for",
    "resume": "resumed",
    "retry": "retried",
}


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    verb: Verb
    ids: tuple[str, ...]
    words: tuple[tuple[str, str], ...]
    target: str | None
    url: str | None
    actor: str | None
    is_dry: bool
    is_sure: bool
    reason: str = ""


def act_options(function: Function) -> Function:
    """Options: which runs, who acts, and whether to look first."""
    for option in (
        dry_run_option,
        click.option("--yes", "is_sure", is_flag=True, help="Act on the runs of a filter without asking."),
        actor_option,
        store_options("One object; with several runs one per line, then the count."),
        click.option(
            "--filter",
            "words",
            type=pair,
            multiple=True,
            metavar="NAME=VALUE",
            help=f"Instead of ids: every run that matches. Repeatable. Names: {', '.join(WRITTEN)}.",
        ),
        click.argument("ids", metavar="RUN...", nargs=-1),
    ):
        function = option(function)
    return function


async def act(asked: Request, out: Output) -> int:
    """Acts on the runs. Returns the exit code: 1 if a run refused."""
    if bool(asked.ids) == bool(asked.words):
        raise click.UsageError(f"which runs? Give their ids, or --filter: holdfast {asked.verb} order-42")
    async with opened_client(asked.target, asked.url, asked.actor) as client:
        for run_id in asked.ids:
            await find_run(client, run_id)
        if len(asked.ids) == 1 and not asked.is_dry:
            await _act_on_one(client, asked, out)
            return 0
        ids = asked.ids or await _select(client, asked)
        if asked.is_dry:
            await _preview(client, asked, ids, out)
            return 0
        if asked.words and not _is_confirmed(asked, len(ids), out):
            raise CommandError("nothing was done")
        return await _act_on_many(client, asked, ids, out)


async def _act_on_one(client: Client, asked: Request, out: Output) -> None:
    run = ClientRun[Any](client, asked.ids[0], None)
    before = await run.view()
    new_run = await bulk.act(run, asked.verb, asked.reason)
    audited(client.actor, asked.verb, run.id, asked.reason or new_run)
    if new_run:
        out.record({"run": new_run, "retried_from": run.id}) if out.is_json else out.line(new_run)
        if out.is_terminal:
            await warn_without_worker(client, new_run, asked.target)
        return
    after = await run.view()
    if out.is_json:
        out.record(run_object(after))
        return
    text = REMARKS[asked.verb](before, after)
    state = standing(after.status.value, after.waiting)
    out.line(("run ", "dim"), (run.id, "bold"), " ", *state, f" ({text})" if text else "")


async def _select(client: Client, asked: Request) -> tuple[str, ...]:
    try:
        which = filter_of_words(asked.words, client.store.clock.now())
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    found = await bulk.select(client, asked.verb, which, MOST)
    if found.is_capped:
        raise CommandError(f"more than {MOST:,} runs match: narrow the filter, for example with --filter since=1h")
    return found.ids


async def _preview(client: Client, asked: Request, ids: tuple[str, ...], out: Output) -> None:
    views, _ = await client.page(Filter(ids=ids[:SAMPLE] or ("",)), limit=SAMPLE)
    if out.is_json:
        shown = [view.id for view in views]
        out.record({"dry_run": True, "verb": asked.verb, "matched": len(ids), "sample": shown})
        return
    print_runs(views, out)
    more = f", {len(ids) - SAMPLE:,} of them not shown" if len(ids) > SAMPLE else ""
    out.line(f"would {asked.verb} {counted(len(ids), 'run')}{more}")


def _is_confirmed(asked: Request, count: int, out: Output) -> bool:
    if asked.is_sure or count == 0:
        return True
    if not out.is_terminal or not sys.stdin.isatty():
        raise click.UsageError(
            f"--filter matches {counted(count, 'run')}. Look at them with --dry-run; add --yes to {asked.verb} them"
        )
    return click.confirm(f"{asked.verb} {counted(count, 'run')}?", err=True)


async def _act_on_many(client: Client, asked: Request, ids: tuple[str, ...], out: Output) -> int:
    problems = done = 0
    with ProgressLine(out) as progress:
        async for one in bulk.perform(client, asked.verb, ids, asked.reason):
            problems, done = problems + (one.error is not None), done + 1
            if one.error is None:
                audited(client.actor, asked.verb, one.run, asked.reason or one.new_run)
            _say(one, out)
            progress.show(f"{done} of {len(ids)} runs")
    if out.is_json:
        out.record({"verb": asked.verb, "runs": done - problems, "problems": problems})
    else:
        refused = f"; {counted(problems, 'run')} refused" if problems else ""
        is_list = asked.verb == "retry" and not out.is_terminal
        last = Output(stream=sys.stderr) if is_list else out
        last.line(f"{PAST[asked.verb]} {counted(done - problems, 'run')}{refused}")
    return 1 if problems else 0


def _say(one: Done, out: Output) -> None:
    """Prints a line for a run that refused, and for a new run."""
    if out.is_json:
        error = {"error": str(one.error)} if one.error is not None else {}
        out.record({"run": one.new_run, "retried_from": one.run} if one.new_run else {"run": one.run, **error})
    elif one.error is not None:
        out.line(("run ", "dim"), (one.run, "bold"), (f": {one.error}", "red"))
    elif one.new_run:
        out.line(one.new_run)
