"""`holdfast init`: creates a small project that runs. It overwrites nothing."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from holdfast.cli.invocation import activation
from holdfast.cli.output import Output
from holdfast.cli.project import FILES
from holdfast.cli.root import HoldfastCommand
from holdfast.cli.targets import CommandError


@click.command("init", cls=HoldfastCommand)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(folder: Path, is_json: bool) -> None:
    """Create a small project in DIR: an app with a workflow, its configuration, an example, a test.

    DIR is created if it is missing. If one of the files already exists, nothing is written; an existing `.gitignore`
    stays unchanged.
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
    for what, words in [*_first(folder), *NEXT, *_last()]:
        out.line((f"  {what}", "dim"))
        out.block(words, indent=4)


def _first(folder: Path) -> list[tuple[str, str]]:
    """The first steps, which make the others work as written."""
    words = activation()
    return [
        *([("activate Holdfast's environment", words)] if words is not None else []),
        *([("change into the project", f"cd {shlex.quote(str(folder))}")] if folder.resolve() != Path.cwd() else []),
    ]


def _last() -> list[tuple[str, str]]:
    missing = "" if find_spec("pytest") is not None else "; install pytest first"
    return [(f"run its tests, on virtual time{missing}", "pytest")]


NEXT = [
    ("run an order from start to end", "python example.py"),
    ("start a worker that serves app.py", "holdfast worker"),
    (
        "start a run, from another terminal in this folder: it is charged, and waits",
        """holdfast start fulfil order='{"id": "42", "cents": 999}' --id order-42""",
    ),
    ("crash the worker: it ends in the middle of its work, and saves nothing", r"# press Ctrl-\ in the first terminal"),
    (
        "send what the run waits for: without a worker the store keeps it",
        "holdfast signal order-42 approved true",
    ),
    ("start a worker again, in the first terminal: it resumes after the charge", "holdfast worker"),
    ("show what happened: charged once, by the worker you killed", "holdfast show order-42"),
    ("while you write code: a worker that restarts when a file changes, and a page", "holdfast dev"),
]


KEPT = (".gitignore",)
"""Files that many folders have: an existing one is kept."""


def _refuse_existing(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file; name a folder")
    there = [str(folder / name) for name in FILES if name not in KEPT and (folder / name).exists()]
    if there:
        raise CommandError(
            f"nothing was written: {', '.join(there)} {'is' if len(there) == 1 else 'are'} there already"
        )


def _write(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, text in FILES.items():
        path = folder / name
        if name in KEPT and path.exists():
            continue
        with path.open("x", encoding="utf-8") as file:  # created by another process meanwhile: theirs stays
            file.write(text)
        written.append(path)
    return written
