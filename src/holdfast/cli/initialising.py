"""`holdfast init`: a small project that runs. Nothing that is there is ever overwritten."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from holdfast.cli.loading import CommandError
from holdfast.cli.output import Output
from holdfast.cli.project import FILES
from holdfast.cli.root import HoldfastCommand


@click.command("init", cls=HoldfastCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "is_json", is_flag=True, help="One object.")
def command(folder: Path, is_json: bool) -> None:
    """Make a small project in DIR: an app with a workflow, its configuration, an example, a test.

    DIR is made if it is missing. If one of the files is there already, nothing is written.
    """
    _refuse_existing(folder)
    written = _write(folder)
    out = Output(is_json=is_json)
    if is_json:
        out.record({"folder": str(folder), "files": [str(path) for path in written]})
        return
    for path in written:
        out.line(("made  ", "dim"), str(path))
    out.line("")
    out.line("Next:")
    for words, what in _next(folder):
        out.hanging(f"  {words:34}", (what, "dim"))


def _next(folder: Path) -> list[tuple[str, str]]:
    order = 'order=\'{"id": "42", "cents": 999}\''
    return [
        *([(f"cd {shlex.quote(str(folder))}", "")] if folder.resolve() != Path.cwd() else []),
        ("holdfast worker", "serves app.py until Ctrl-C"),
        ("python example.py", "an order from start to end"),
        (f"holdfast start fulfil {order} --id order-42", "in another terminal: a run for the worker"),
        ("holdfast signal order-42 approved true", "it waits for that"),
        ("holdfast show order-42", "what it did"),
        ("pytest", "its tests, on virtual time"),
    ]


def _refuse_existing(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file; name a folder")
    there = [str(folder / name) for name in FILES if (folder / name).exists()]
    if there:
        raise CommandError(
            f"nothing was written: {', '.join(there)} {'is' if len(there) == 1 else 'are'} there already"
        )


def _write(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, text in FILES.items():
        path = folder / name
        with path.open("x", encoding="utf-8") as file:  # made by somebody else meanwhile: theirs stays
            file.write(text)
        written.append(path)
    return written
