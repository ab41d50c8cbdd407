"""`holdfast cancel`, `kill`, `pause`, `resume`, `drop`, `retry`: an operator's actions, recorded with their name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from holdfast.authoring.handle import RunView
from holdfast.cli.asking import asking, find_run
from holdfast.cli.loading import opened_client
from holdfast.cli.output import Output, standing
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.inspect import remarks
from holdfast.client.inspect.objects import run_object
from holdfast.client.run import ClientRun

_REASON = click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the journal with your name.")


@click.command("cancel", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
@_REASON
def cancel(run_id: str, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Cancel a run: its code gets CancelledError and may clean up. A run that has not started ends at once."""
    run_async(_do(run_id, target, url, Output(is_json=is_json), lambda run: run.cancel(reason), remarks.cancelled))


@click.command("kill", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
@_REASON
def kill(run_id: str, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """End a run at once, even on another worker: none of its code runs, nothing is undone. `show` lists what was
    left."""
    run_async(_do(run_id, target, url, Output(is_json=is_json), lambda run: run.kill(reason), remarks.killed))


@click.command("pause", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
@_REASON
def pause(run_id: str, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Pause a run until it is resumed: at once if no worker holds it, else when its running steps end."""
    run_async(_do(run_id, target, url, Output(is_json=is_json), lambda run: run.pause(reason), remarks.paused))


@click.command("resume", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
def resume(run_id: str, target: str | None, url: str | None, is_json: bool) -> None:
    """Resume a paused run, whatever paused it: an operator, quarantine, or code that diverged from its journal.

    Fix the cause first: a run that kills its worker, or whose code still differs, is paused again.
    """
    run_async(_do(run_id, target, url, Output(is_json=is_json), lambda run: run.resume(), remarks.resumed))


@click.command("drop", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("number", metavar="NUMBER", type=click.IntRange(min=1))
@asking()
@_REASON
def drop(run_id: str, number: int, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Drop a message that a run cannot read: one that was changed, damaged, or is missing. `show` and `verify` say
    which. The message is lost, unless it was the end of a child, which is read again from the child's journal.

    The run stays paused: resume it then.
    """
    run_async(_drop(run_id, number, target, url, Output(is_json=is_json), reason))


@click.command("retry", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
@click.option("--id", metavar="ID", help="Id of the new run.")
def retry(run_id: str, target: str | None, url: str | None, is_json: bool, id: str | None) -> None:
    """Retry an ended run as a new run: same input, and completed steps are taken over, not run again.

    Prints the id of the new run.
    """
    run_async(_retry(run_id, target, url, Output(is_json=is_json), id))


async def _do(
    run_id: str,
    target: str | None,
    url: str | None,
    out: Output,
    verb: Callable[[ClientRun[Any]], Awaitable[None]],
    remark: Callable[[RunView, RunView], str],
) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        run = ClientRun[Any](client, run_id, None)
        before = await run.view()
        await verb(run)
        after = await run.view()
    if out.is_json:
        out.record(run_object(after))
        return
    text = remark(before, after)
    state = standing(after.status.value, after.waiting)
    out.line(("run ", "dim"), (run_id, "bold"), " ", *state, f" ({text})" if text else "")


async def _retry(run_id: str, target: str | None, url: str | None, out: Output, new_id: str | None) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        made = await ClientRun[Any](client, run_id, None).retry(id=new_id)
    out.record({"run": made.id, "retried_from": run_id}) if out.is_json else out.line(made.id)


async def _drop(run_id: str, number: int, target: str | None, url: str | None, out: Output, reason: str) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        is_told_again = await ClientRun[Any](client, run_id, None).drop_message(number, reason)
    if out.is_json:
        out.record({"run": run_id, "message": number, "told_again": is_told_again})
        return
    what = "told again from the child's journal" if is_told_again else "dropped"
    out.line(("run ", "dim"), (run_id, "bold"), f": message {number} {what}; holdfast resume {run_id} resumes it")
