"""Replays a journal with the current definitions: from its turns to a program that is where they end.

`Replay` reads nothing. It says which blobs it needs, is given them, and replays the turns: all at once, or one by one
(`step`). No body runs and nothing is written. Its result is the program, or both sides of the first difference, or what
this process lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, cast

import msgspec

from holdfast.authoring.registry import Registry
from holdfast.core import events as e
from holdfast.core.passes import last_beginning, next_beginning
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Turn
from holdfast.errors import BlobNotFound, Diverged, RunRedacted
from holdfast.turn.history import Loaded
from holdfast.turn.payloads import blobs_wanted, inline


class Replayed(msgspec.Struct, frozen=True):
    """The program is where the journal ends."""

    program: Program


class Parted(msgspec.Struct, frozen=True):
    """The code asks for something different from the journal, at that row; the error describes both."""

    row: int
    journal: str
    code: str
    where: str
    error: Diverged


class Missing(msgspec.Struct, frozen=True):
    """This process cannot advance the run, and why."""

    note: str


Result: TypeAlias = Replayed | Parted | Missing


class Replay:
    """One pass over the turns of a run. See the module.

    Once nothing is needed, `spec` is what the run executes, and its program has begun no turn. A caller that gives up a
    replay before its result closes the program; after a difference or an error it has been closed.
    """

    __slots__ = (
        *("_at", "_loaded", "_registry", "_settings", "_turns"),
        *("is_left_behind", "needs", "program", "result", "run", "spec"),
    )

    def __init__(self, loaded: Loaded, registry: Registry, settings: Settings) -> None:
        if loaded.run.redacted:
            raise RunRedacted(
                f"run {loaded.run.id} was redacted: its journal is not what its code asked for, so it does not replay",
                run_id=loaded.run.id,
            )
        self._loaded = loaded
        self._registry = registry
        self._settings = settings
        self._turns: Sequence[Turn] = ()
        self._at = 0
        self.run: Run = loaded.run
        self.needs: frozenset[str] = frozenset()  # names of the blobs to give
        self.spec: WorkflowSpec | None = registry.of(loaded.run)
        self.program: Program | None = None
        self.result: Result | None = None
        self.is_left_behind: bool = False  # the code of its program would not end when it was closed
        if self.spec is not None:
            self._ask_for_payloads()
        elif self.run.style == "flow":
            self.needs = frozenset((self.run.code,))
        else:
            self.result = Missing(f"workflow {self.run.workflow} {self.run.version} is not registered here")

    def give(self, blobs: Mapping[str, bytes]) -> None:
        """Takes the needed blobs. Raises `BlobNotFound` if one is missing."""
        lost = sorted(name for name in self.needs if name not in blobs)
        if lost:
            raise BlobNotFound(f"run {self.run.id}: its journal names blob {lost[0]}, which is not there")
        self.needs = frozenset()
        if self.spec is not None:
            self._begin(blobs)
            return
        learned = self._registry.learn(blobs[self.run.code])
        self.spec = self._registry.of(self.run)
        if self.spec is None:
            self.result = Missing(self._registry.lack_of(learned))
        else:
            self._ask_for_payloads()

    def step(self) -> Turn | None:
        """Replays the next turn and returns it; None at the end, when `result` says how it ended."""
        if self.result is not None:
            return None
        turns = self._turns[self._at : self._at + 1]
        self._at += len(turns)
        self._go_through(turns)
        if self.result is None and self._at == len(self._turns):
            self.result = Replayed(self._begun())
        return turns[0] if turns else None

    def finish(self) -> Result:
        """Replays all remaining turns."""
        if self.result is None:
            turns, self._at = self._turns[self._at :], len(self._turns)
            self._go_through(turns)
        self.result = self.result or Replayed(self._begun())
        return self.result

    def close(self) -> bool:
        """Ends the program, if there is one. Returns False if its code would not end: it is left behind, without
        effects."""
        program, self.program = self.program, None
        if program is not None and not program.close():
            self.is_left_behind = True
        return not self.is_left_behind

    def _ask_for_payloads(self) -> None:
        self.needs = frozenset(blobs_wanted(islice(self._loaded.turns, self._loaded.plain, None)))
        if not self.needs:
            self._begin({})

    def _begin(self, blobs: Mapping[str, bytes]) -> None:
        turns: Sequence[Turn] = self._loaded.turns
        if blobs:
            turns = [msgspec.structs.replace(t, events=tuple(inline(x, blobs) for x in t.events)) for t in turns]
        beginning, self._turns = last_beginning(self.run.id, turns)
        assert self.spec is not None
        self.program = self._registry.program(self.spec, beginning, self._settings)

    def _begun(self) -> Program:
        assert self.program is not None, f"blobs are needed first: {sorted(self.needs)}"
        return self.program

    def _go_through(self, turns: Sequence[Turn]) -> None:
        program = self._begun()
        if not turns:
            return
        try:
            program.replay(turns)
        except Diverged as error:
            self.close()
            self.result = Parted(error.row, error.journal, error.code, error.where, error)
        except BaseException:
            self.close()
            raise


def begun(
    run: Run, turn: Turn, blobs: Iterable[tuple[str, object]], registry: Registry, settings: Settings
) -> Program | None:
    """The program of a run that has only its first row, from memory; None if its definition is unknown here."""
    spec = registry.of(run)
    if spec is None:
        return None
    turns = (turn,)
    if wanted := blobs_wanted(turns):
        stored = {name: data for name, data in blobs if name in wanted and isinstance(data, bytes)}
        turns = (msgspec.structs.replace(turn, events=tuple(inline(x, stored) for x in turn.events)),)
    return registry.program(spec, last_beginning(run.id, turns)[0], settings)


def begun_anew(
    run: Run, start: e.Continued, blobs: Mapping[str, bytes], registry: Registry, settings: Settings
) -> Program | None:
    """The program of the pass that begins with `continue_as`, from memory; None if its journal must be read."""
    spec = registry.of(run)
    start = cast("e.Continued", inline(start, blobs)) if start.blob in blobs else start
    if spec is None or start.blob or any(signal.blob for signal in run.buffered.values()):
        return None
    return registry.program(spec, next_beginning(run, start), settings)
