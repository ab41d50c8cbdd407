"""`holdfast batch`: runs a workflow over the lines of a file and writes the results. Running it again resumes it."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import msgspec

from holdfast.app import App
from holdfast.authoring.batch.batch_plan import MAX_ID, MOST_AT_ONCE, Order
from holdfast.authoring.script.place import place as here
from holdfast.authoring.script.workflows import Call
from holdfast.cli.output import Output
from holdfast.cli.progress import Bar, progress_on
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, app_to_serve, refuse_private
from holdfast.client.arguments import find_workflow, from_json
from holdfast.client.audit import audited, this_user
from holdfast.client.batches import Batch, start_calls
from holdfast.client.items import Item
from holdfast.client.start_options import StartOptions
from holdfast.config import load
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.errors import InvalidItem

LONGEST = 64 * 1024 * 1024
"""Maximum bytes of a line: more than a payload may have."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    inputs: Path
    out: str
    id: str
    concurrency: int
    order: Order
    queue: str
    has_worker: bool


Function = TypeVar("Function", bound=Callable[..., Any])


def batch_options(inputs_help: str) -> Callable[[Function], Function]:
    """What every way to run a batch takes."""
    readable = click.Path(exists=True, dir_okay=False, path_type=Path)
    at_once = click.IntRange(1, MOST_AT_ONCE)
    options = [
        click.option("--inputs", required=True, metavar="FILE", type=readable, help=inputs_help),
        click.option("--out", required=True, metavar="FILE",
                     help="Output file: one JSON result per line, in input order; - for stdout."),
        click.option("--id", metavar="ID", help="Id of the batch. [derived from workflow and inputs]"),
        click.option("--concurrency", "-c", type=at_once, default=10, show_default=True, help="Maximum open items."),
        click.option("--order", type=click.Choice(["depth", "breadth"]), default="depth", show_default=True,
                     help="depth: finish items one by one. breadth: first step of every item first."),
        click.option("--queue", default="default", show_default=True, metavar="NAME"),
        click.option("--no-worker", "is_only_client", is_flag=True, help="Leave the work to other workers."),
        click.option("--json", "is_json", is_flag=True, help="Print the counts as one object."),
    ]  # fmt: skip

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.command("batch", cls=HoldfastCommand)
@click.argument("place", metavar="[MODULE:APP] WORKFLOW")
@click.argument("workflow", required=False, metavar="")
@click.option("--version", metavar="VERSION", help="Version of the workflow. [the one registered last]")
@batch_options("Input file: one JSON value per line, an object (arguments by name) or an array (by position).")
def command(
    place: str,
    workflow: str | None,
    inputs: Path,
    out: str,
    version: str | None,
    id: str | None,
    concurrency: int,
    order: Order,
    queue: str,
    is_only_client: bool,
    is_json: bool,
) -> int:
    """Run WORKFLOW once for each line of a file, and write the results to another file.

    The same command resumes where it stopped: items that have ended do not run again. If a line does not match the
    workflow's arguments, nothing starts. The exit code is 1 if any item failed.

    \b
      holdfast batch shop:app price --inputs skus.jsonl --out prices.jsonl -c 50
    """
    target, name = (place, workflow) if workflow is not None else (None, place)
    app = app_to_serve(target, load())
    refuse_private(app.url)
    spec = find_workflow(app.registry, name, version)
    asked = Request(inputs, out, id or default_id(spec, inputs), concurrency, order, queue, not is_only_client)
    return run_async(run_over_file(app, spec, partial(_call, spec), asked, Output(is_json=is_json)))


def default_id(spec: WorkflowSpec, inputs: Path, variables: Mapping[str, Any] | None = None) -> str:
    """The default id: a hash of the workflow, the bytes of the file and, for a flow, its definition and variables."""
    definition = spec.code if spec.style == "flow" else ""
    digest = hashlib.sha256(msgspec.json.encode([spec.name, spec.version, definition, variables or {}], order="sorted"))
    with inputs.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return f"{spec.name[: MAX_ID - 30]}-{digest.hexdigest()[:16]}"


async def run_over_file(
    app: App, spec: WorkflowSpec, make: Callable[[bytes], Call[Any]], asked: Request, out: Output
) -> int:
    """Starts or finds the batch, and writes its results as they come."""
    async with AsyncExitStack() as stack:
        if asked.has_worker:
            await stack.enter_async_context(app.worker(concurrency=max(100, asked.concurrency), queues=(asked.queue,)))
        else:
            await stack.enter_async_context(app)
        with asked.inputs.open("rb") as file:
            try:
                batch: Batch[Any] = await start_calls(
                    await app.client(), spec, make, _lines(file),
                    concurrency=asked.concurrency, order=asked.order, how=StartOptions(id=asked.id, queue=asked.queue),
                )  # fmt: skip
            except InvalidItem as error:
                file.seek(0)
                text = str(error).partition(": ")[2]
                raise click.UsageError(f"{asked.inputs}, line {_line_of(file, error.index)}: {text}") from error
        audited(this_user(), "start batch", batch.id, spec.name)
        with progress_on(sys.stderr, is_json=out.is_json) as bar:
            watching = asyncio.create_task(_watch(batch, bar))
            try:
                await _write(batch, asked.out, spec)
                await batch.wait()
            finally:
                watching.cancel()
            counts = await batch.counts()
            bar.show(counts)
    if out.is_json and asked.out != "-":
        out.record({"batch": batch.id, **msgspec.to_builtins(counts)})
    if counts.completed < counts.total:
        left = counts.total - counts.completed
        raise CommandError(f"batch {batch.id}: {left} of {counts.total} items did not complete; {asked.out} says why")
    return 0


async def _watch(batch: Batch[Any], bar: Bar) -> None:
    while True:
        bar.show(await batch.counts())
        await asyncio.sleep(0.25)


async def _write(batch: Batch[Any], out: str, spec: WorkflowSpec) -> None:
    """Writes to a temporary file first, so that the output file is always complete."""
    if out == "-":
        async for item in batch.items():
            sys.stdout.write(_line(item, spec))
        return
    part = Path(f"{out}.part")
    with part.open("w", encoding="utf-8") as file:  # noqa: ASYNC230 lines of a local file
        async for item in batch.items():
            file.write(_line(item, spec))
    part.replace(out)  # noqa: ASYNC240


def _line(item: Item[Any], spec: WorkflowSpec) -> str:
    shown: dict[str, Any] = {"index": item.index, "status": item.status.value}
    if item.status is Status.COMPLETED:
        shown["result"] = msgspec.Raw(spec.result.encode(item.result))
    else:
        shown["error"] = str(item.error)
    return msgspec.json.encode(shown).decode() + "\n"


def _line_of(file: IO[bytes], index: int) -> int:
    """The line of an input, counted from 1 as editors do. Empty lines are not inputs."""
    inputs = (number for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1) if line.strip())
    return next(number for place, number in enumerate(inputs) if place == index)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(LONGEST):
        if stripped := line.strip():
            yield stripped


def _call(spec: WorkflowSpec, line: bytes) -> Call[Any]:
    return Call(spec, spec.arguments.round_trip(*from_json(spec, line, what="it"))[0], here(0))
