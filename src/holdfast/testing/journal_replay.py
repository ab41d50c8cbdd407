"""`replay`: do recorded journals still replay with this code?

A journal is replayed with the current definitions, as a worker does after a restart: no body runs, nothing is written,
no store is opened. The journals are files of `holdfast export RUN`. A run of a flow executes the definition it began
with, which its journal contains, with the current components.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from os import PathLike, fspath
from pathlib import Path

from holdfast import sync
from holdfast.app import App
from holdfast.authoring.registry import Registry
from holdfast.core.exported import by_run, decode_export
from holdfast.core.plurals import counted
from holdfast.core.specs import Settings
from holdfast.core.turn import Row
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.turn.history import Journal, Load, Loaded
from holdfast.turn.replay import Missing, Parted, Replay


class ReplayFailed(AssertionError):
    """A recorded journal does not replay with this code; the message is the whole report."""

    def __init__(self, report: ReplayReport) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True, slots=True)
class Problem:
    """A run that does not replay: the file, the run, and why."""

    source: str
    run: str
    why: str
    is_unknown: bool = False
    """Whether the app does not serve its workflow, so that nothing was replayed."""

    def __str__(self) -> str:
        return f"{self.source}: {self.why}"


@dataclass(slots=True)
class ReplayReport:
    """The outcome of `replay`."""

    files: int = 0
    runs: int = 0
    rows: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def ok(self) -> bool:
        """Whether every run replays."""
        return not self.problems

    def assert_ok(self) -> None:
        """Raises `ReplayFailed`, an AssertionError with the whole report, if a run does not replay."""
        if self.problems:
            raise ReplayFailed(self)

    def __str__(self) -> str:
        read = f"{counted(self.files, 'journal')}, {counted(self.runs, 'run')}, {counted(self.rows, 'row')}"
        head = f"{read}: {len(self.problems)} do not replay"
        return "\n\n".join([head, *map(str, self.problems)])


def replay(journals: str | PathLike[str] | Iterable[str | PathLike[str]], app: App | sync.App) -> ReplayReport:
    """Replays recorded journals with the definitions of the app; call `assert_ok()` on the report.

    `journals`: a pattern such as `"tests/journals/*.json"`, a file, or several of them. A pattern that matches nothing
    is an error: a check of no journals would always pass. A run diverges if the code asks for something different from
    the journal; the report shows both, and the line of code. Children are replayed with their parents.
    """
    inner = app.app if isinstance(app, sync.App) else app
    given = [journals] if isinstance(journals, str | PathLike) else list(journals)
    report = ReplayReport()
    for path in _files(given):
        _, rows, blobs = decode_export(path.read_bytes(), str(path))
        report.files += 1
        report.runs += len(by_run(rows))
        report.rows += len(rows)
        report.problems += problems_of(str(path), rows, blobs, inner.registry, inner.settings)
    return report


def problems_of(
    source: str, rows: Sequence[Row], blobs: Mapping[str, bytes], registry: Registry, settings: Settings
) -> list[Problem]:
    """The runs of a tree that do not replay with these definitions."""
    found: list[Problem] = []
    for name, journal in by_run(rows).items():
        try:
            problem = _problem_of(source, Replay(_loaded(name, journal, blobs), registry, settings), blobs)
        except HoldfastError as error:
            problem = Problem(source, name, str(error))
        if problem is not None:
            found.append(problem)
    return found


def _problem_of(source: str, replay: Replay, blobs: Mapping[str, bytes]) -> Problem | None:
    while replay.needs:
        replay.give(blobs)
    try:
        result, run = replay.finish(), replay.run
    finally:
        replay.close()
    if isinstance(result, Parted):
        return Problem(source, run.id, str(result.error))
    if isinstance(result, Missing):
        version = f" (version {run.version})" if run.version else ""
        lacks = f": {result.note}" if run.style == "flow" else ""
        why = f"run {run.id} is of workflow {run.workflow}{version}, which the app does not serve{lacks}"
        return Problem(source, run.id, why, is_unknown=True)
    return None


def _loaded(run: str, rows: Sequence[Row], blobs: Mapping[str, bytes]) -> Loaded:
    load = Load(run, Journal(rows))
    if load.needs:
        load.give(blobs)
    assert load.result is not None
    return load.result


def _files(given: Iterable[str | PathLike[str]]) -> list[Path]:
    found: dict[Path, None] = {}
    for one in given:
        pattern = fspath(one)
        matches = [pattern] if Path(pattern).is_file() else sorted(glob(pattern, recursive=True))  # noqa: PTH207 a pattern may be absolute
        if not matches:
            raise InvalidInput(
                f"replay({pattern!r}): no file matches, looked for from {Path.cwd()}. Write one with "
                "`holdfast export RUN -o FILE`."
            )
        found.update(dict.fromkeys(map(Path, matches)))
    return list(found)
