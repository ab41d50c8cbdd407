"""`holdfast start`: starts a run."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click
import msgspec

from holdfast.app import App
from holdfast.authoring.handle import Run
from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.place import place as here
from holdfast.authoring.script.workflows import Call
from holdfast.cli.live_workers import warn_without_worker
from holdfast.cli.message import channel_of
from holdfast.cli.options import actor_option
from holdfast.cli.output import Output
from holdfast.cli.parameters import by_name, duration, moment, pair, read_json, read_text
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, app_to_serve, client_for, refuse_private
from holdfast.client.arguments import find_workflow, from_json, from_words
from holdfast.client.audit import audited
from holdfast.client.client_run import ClientRun
from holdfast.client.start_options import Given, StartOptions
from holdfast.config import load
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.errors import Conflict, HoldfastError, InvalidInput


@click.command("start", cls=HoldfastCommand)
@click.argument("place", metavar="[MODULE:APP] WORKFLOW")
@click.argument("rest", metavar="[NAME=VALUE]...", nargs=-1)
@click.option(
    "--input", "given", metavar="JSON", help="All arguments as a JSON object or array; @FILE, or - for stdin."
)
@click.option("--version", metavar="VERSION", help="Version of the workflow. [the one registered last]")
@click.option("--id", metavar="ID", help="Id of the run; the same id and input again returns that run.")
@click.option(
    "--if-exists",
    type=click.Choice(["return", "reject", "replace"]),
    help="If a run has the id, key or unique value: return it whatever its input, reject, or cancel the run that has "
    "the unique value and take its place. [return it if the input is the same]",
)
@click.option("--key", metavar="KEY", help="Idempotency key, for 24 hours.")
@click.option("--unique", metavar="VALUE", help="At most one open run of the workflow has this value.")
@click.option(
    "--debounce",
    type=duration,
    help="With --unique: begin when no start with the value has arrived for this long; the last input wins.",
)
@click.option("--max-wait", type=duration, help="With --debounce: latest time to begin, counted from the first start.")
@click.option("--delay", type=duration, help="Start later.")
@click.option("--deadline", type=moment, metavar="DURATION|INSTANT", help="Latest time for the run to end.")
@click.option("--queue", default="default", show_default=True, metavar="NAME")
@click.option(
    "--priority", type=int, default=0, show_default=True, help="Priority: higher runs first within its share."
)
@click.option(
    "--share", metavar="SHARE", help="Share of the queue that it belongs to, such as a tenant. [its workflow]"
)
@click.option(
    "--attribute",
    "attributes",
    type=pair,
    multiple=True,
    metavar="NAME=VALUE",
    help="Attribute to filter by. Repeatable.",
)
@click.option(
    "--signal",
    type=pair,
    metavar="NAME=JSON",
    help="Signal to send with the start, or now if the run exists.",
)
@click.option("--signal-id", metavar="ID", help="Id of that signal, so that a repeated start sends it once.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait for the end and print the result as JSON.")
@click.option("--timeout", type=duration, help="Maximum time to wait, with --wait.")
@actor_option
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(
    place: str,
    rest: tuple[str, ...],
    given: str | None,
    version: str | None,
    is_waiting: bool,
    timeout: timedelta | None,
    actor: str | None,
    is_json: bool,
    attributes: tuple[tuple[str, str], ...],
    signal: tuple[str, str] | None,
    signal_id: str | None,
    **options: Any,
) -> int:
    """Start a run of WORKFLOW and print its id. A worker will take it.

    MODULE:APP may be left out if the configuration names the app. Give arguments as NAME=VALUE, where VALUE is JSON or,
    for texts, dates and the like, plain text; or all together with --input.

    \b
      holdfast start shop:app ship order='{"id": "42", "cents": 999}' express=true
      holdfast start shop:app ship --input @order.json --id order-42 --wait
      holdfast start shop:app approve doc=a.md --id a.md --signal approved=true
    """
    target, workflow, words = _told(place, rest)
    if timeout is not None and not is_waiting:
        raise click.UsageError("--timeout is for --wait; a run itself is limited with --deadline")
    if given is not None and words:
        raise click.UsageError("give the arguments with --input or as NAME=VALUE, not both")
    app = app_to_serve(target, load())
    refuse_private(app.url)
    spec = find_workflow(app.registry, workflow, version)
    try:
        arguments = (
            from_words(spec, by_name(words, "argument"))
            if given is None
            else from_json(spec, read_text(given, "--input"))
        )
        call: Call[Any] = Call(spec, spec.arguments.round_trip(*arguments)[0], here(0))
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    options["attributes"] = by_name(attributes, "attribute")
    options["signal"] = _signal(signal, signal_id)
    return run_async(_start(app, call, options, actor, Output(is_json=is_json), timeout, target, is_waiting=is_waiting))


def _signal(given: tuple[str, str] | None, id: str | None) -> Given | None:
    if given is None:
        if id is not None:
            raise click.UsageError("--signal-id is for --signal")
        return None
    channel: Signal[Any] = channel_of(Signal, given[0])
    value = read_json(given[1])
    return (channel, value) if id is None else (channel, value, id)


async def _start(
    app: App,
    call: Call[Any],
    options: dict[str, Any],
    actor: str | None,
    out: Output,
    timeout: timedelta | None,
    target: str | None,
    *,
    is_waiting: bool,
) -> int:
    async with app:
        client = client_for(await app.client(), actor)
        try:
            run = await client.start(call, StartOptions(by_hand=True, **options))
        except Conflict as error:
            raise CommandError(re.sub(r'if_exists="(\w+)"', r"--if-exists \1", str(error))) from error
        audited(client.actor, "start", run.id, call.spec.name)
        if not is_waiting:
            out.record({"run": run.id, "outcome": outcome_of(run)}) if out.is_json else out.line(run.id)
            if out.is_terminal:
                await warn_without_worker(client, run.id, target)
            return 0
        await warn_without_worker(client, run.id, target)
        return await end_of(run, call.spec, out, timeout)


def outcome_of(run: Run[Any]) -> str:
    """Whether this start made the run."""
    return "created" if isinstance(run, ClientRun) and run.is_new else "existing"


async def end_of(run: Run[Any], spec: WorkflowSpec, out: Output, timeout: timedelta | None) -> int:
    """Waits for the end of a run and prints its result. Returns the exit code."""
    try:
        value = await run.result(timeout)
    except HoldfastError as error:
        status, problem = await run.status(), str(error)
    except Exception as error:  # noqa: BLE001 an exception the workflow declares: the way it says no
        status, problem = Status.FAILED, f"run {run.id} failed: {type(error).__name__}: {error}"
    else:
        result = msgspec.json.decode(spec.result.encode(value))
        made = {"run": run.id, "outcome": outcome_of(run)}
        out.record({**made, "status": Status.COMPLETED.value, "result": result} if out.is_json else result)
        return 0
    if not out.is_json:
        raise CommandError(problem)
    out.record({"run": run.id, "outcome": outcome_of(run), "status": status.value, "error": problem})
    return 1


def _told(first: str, rest: tuple[str, ...]) -> tuple[str | None, str, tuple[tuple[str, str], ...]]:
    """The app if it is named (it has a colon, and a workflow follows), the workflow, and its arguments."""
    if ":" in first and rest and "=" not in rest[0]:
        target, workflow, words = first, rest[0], rest[1:]
    elif ":" in first and not rest:
        raise click.UsageError(f"which workflow of {first}?")
    else:
        target, workflow, words = None, first, rest
    return target, workflow, tuple(pair(word) for word in words)
