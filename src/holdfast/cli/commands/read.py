"""`holdfast read`: the parts of a stream, those that exist or as they come."""

from __future__ import annotations

import sys

import click
import msgspec

from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.client import Client
from holdfast.client.stream_reader import Only, StreamPart, read_shown
from holdfast.core.doing import one_line
from holdfast.core.ids import check_name
from holdfast.core.plurals import counted
from holdfast.errors import InvalidInput


@click.command("read", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@store_options("One object per part.")
@click.option("--follow", "is_live", is_flag=True, help="Wait for more, until the run ends.")
@click.option("--after", type=click.IntRange(min=0), metavar="OFFSET", help="Start after this offset.")
@click.option("--completed", "is_completed", is_flag=True, help="Only parts of attempts that completed.")
@click.option(
    "--text",
    "is_text",
    is_flag=True,
    help="Only the values; texts are printed as they are, without line breaks between them.",
)
def command(
    run_id: str,
    name: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    is_live: bool,
    after: int | None,
    is_completed: bool,
    is_text: bool,
) -> None:
    """Show what a run sent to a stream. With --follow, as it comes, until the run ends; Ctrl-C stops reading.

    Each line has the offset, for --after, the step with its attempt, and the value. Parts of an attempt that failed or
    was cut off are marked as superseded.
    """
    if is_json and is_text:
        raise click.UsageError("--json and --text exclude each other: give one of them.")
    try:
        check_name(name, "NAME")
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    only: Only = "completed" if is_completed else None
    place = -1 if after is None else after
    out = Output(is_json=is_json)
    run_async(_read(run_id, name, target, url, out, place, only, is_live=is_live, is_text=is_text))


async def _read(
    run_id: str,
    name: str,
    target: str | None,
    url: str | None,
    out: Output,
    after: int,
    only: Only,
    *,
    is_live: bool,
    is_text: bool,
) -> None:
    async with opened_client(target, url) as client:
        row = await find_run(client, run_id)
        is_any = False
        async for part in read_shown(client, row, name, after, only, is_live=is_live):
            is_any, value = True, part.value
            if is_text:
                sys.stdout.write(value if isinstance(value, str) else msgspec.json.encode(value).decode())
            elif out.is_json:
                facts = {"offset": part.offset, "step": part.step, "attempt": part.attempt, "state": part.state}
                out.record({**facts, "value": value})
            else:
                out.line(_line(part))
            sys.stdout.flush()
        if not is_any and not out.is_json:
            click.echo(await _nothing(client, run_id, name, after), err=True)


def _line(part: StreamPart) -> str:
    sender = f"{part.step} #{part.attempt}" if part.step else "workflow"
    mark = " (superseded)" if part.state == "superseded" else ""
    return f"{part.offset}  {sender}{mark}  {one_line(msgspec.json.encode(part.value).decode(), 500)}"


async def _nothing(client: Client, run: str, name: str, after: int) -> str:
    known = await client.store.streams_of(run)
    if name in known:
        return f"run {run}: stream {name!r} has no such parts{'' if after < 0 else f' after offset {after}'}"
    others = ", ".join(f"{other} ({counted(end, 'part')})" for other, end in known.items()) or "none"
    return f"run {run}: nothing was sent to stream {name!r}. Its streams: {others}"
