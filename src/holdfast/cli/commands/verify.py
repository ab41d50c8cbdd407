"""`holdfast verify`: reads every journal again and compares it with what lists show."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Protocol

import click

from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output, is_terminal
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.client import Client
from holdfast.client.differences import UNCHECKED
from holdfast.client.verification import damaged_workers, verify_run
from holdfast.core.plurals import counted
from holdfast.ports.runs import Filter, RunRow

PAGE = 200


class Counting(Protocol):
    """Called with each run that was checked."""

    def __call__(self) -> None: ...


@click.command("verify", cls=HoldfastCommand)
@click.argument("ids", metavar="[RUN]...", nargs=-1)
@store_options()
def command(ids: tuple[str, ...], target: str | None, url: str | None, is_json: bool) -> int:
    """Check every run in the store: the checksums of its journal, messages and exposed values; that all its other rows
    agree with the journal; and that its large payloads exist unchanged. RUN checks only these runs. Nothing is changed.
    Exit code 1 if something is wrong.
    """
    return run_async(_verify(target, url, ids, Output(is_json=is_json)))


async def _verify(target: str | None, url: str | None, ids: tuple[str, ...], out: Output) -> int:
    runs = rows = 0
    problems: list[dict[str, str]] = []
    notes: list[dict[str, str]] = []
    async with opened_client(target, url) as client:
        total = len(ids) or sum((await client.store.count()).values())
        with _progress(total, is_shown=not out.is_json) as count:
            async for row in _chosen(client, ids):
                finding = await verify_run(client.store, row)
                runs, rows = runs + 1, rows + finding.rows
                problems += [{"run": finding.run, "problem": problem} for problem in finding.problems]
                notes += [{"run": finding.run, "note": note} for note in finding.notes]
                count()
        if not ids:
            found = damaged_workers(await client.store.workers())
            problems += [{"worker": finding.run, "problem": finding.problem} for finding in found]
    if out.is_json:
        out.record({"runs": runs, "rows": rows, "problems": problems, "notes": notes, "unchecked": UNCHECKED})
    else:
        for problem in problems:
            (kind, name), (_, text) = problem.items()
            out.line((f"{kind} ", "dim"), (name, "bold"), (f": {text}", "red"))
        for note in notes:
            out.line(("run ", "dim"), (note["run"], "bold"), (f": {note['note']}", "yellow"))
        verdict = counted(len(problems), "problem") if problems else "no problems"
        out.line(f"{counted(runs, 'run')}, {counted(rows, 'journal row')}: ", (verdict, "red" if problems else "green"))
    return 1 if problems else 0


async def _chosen(client: Client, ids: tuple[str, ...]) -> AsyncIterator[RunRow]:
    """Yields runs page by page: a store may hold more runs than fit in memory."""
    for run_id in ids:
        yield await find_run(client, run_id)
    if ids:
        return
    after = ""
    while True:
        page = await client.store.list(Filter(), after=after, limit=PAGE)
        for row in page.runs:
            yield row
        if not page.next:
            return
        after = page.next


@contextmanager
def _progress(total: int, *, is_shown: bool) -> Generator[Counting]:
    """A progress bar on standard error, if that is a terminal."""
    if not is_shown or not is_terminal(sys.stderr):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda: progress.advance(bar)
