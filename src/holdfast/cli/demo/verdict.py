"""The verdict of a demo: compares the ledger, which says what happened, with the journal, which says what was
recorded.

Pure. Two pictures are compared, one taken between the kill and the second worker's start, one at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.core.entry import Entry
from holdfast.core.plurals import counted

StepId: TypeAlias = tuple[str, str]
"""A step of a run: the run's id and the step's key."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the ledger."""

    word: str
    run: str
    key: str
    attempt: int
    pid: int
    idempotency_key: str

    @property
    def step(self) -> StepId:
        return self.run, self.key


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the journal says about one step."""

    attempts: int = 0
    failed: int = 0
    cut_off: int = 0
    completed: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """Ledger and journal at one moment."""

    notes: tuple[Note, ...]
    steps: Mapping[StepId, Recorded]

    @property
    def completed(self) -> list[StepId]:
        """Steps whose completion is in the journal."""
        return [step for step, recorded in self.steps.items() if recorded.completed]

    @property
    def in_flight(self) -> list[StepId]:
        """Steps whose body has begun and not ended."""
        ended = {(note.step, note.attempt) for note in self.notes if note.word == "end"}
        begun = {note.step: note.attempt for note in self.notes if note.word == "begin"}
        return [step for step, attempt in begun.items() if (step, attempt) not in ended]

    def count(self, word: str, step: StepId) -> int:
        """How often the step wrote that word."""
        return sum(note.word == word and note.step == step for note in self.notes)


@dataclass(frozen=True, slots=True)
class Kill:
    """The moment between two workers."""

    pid: int
    exit_code: int
    picture: Picture


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of the demo; without problems it succeeded."""

    kill: Kill
    end: Picture
    result: str
    problems: Sequence[str] = field(default=())


def read_ledger(text: str) -> tuple[Note, ...]:
    """The notes of a ledger; an incomplete last line is left for later."""
    lines = text.split("\n")[:-1]
    fields = [line.split("\t") for line in lines]
    return tuple(Note(word, run, key, int(attempt), int(pid), same) for word, run, key, attempt, pid, same in fields)


def recorded_steps(timelines: Mapping[str, Iterable[Entry]]) -> dict[StepId, Recorded]:
    """What the journals of these runs say about their steps, in the order in which these began."""
    found: dict[StepId, list[Entry]] = {}
    for run, entries in timelines.items():
        for entry in entries:
            if entry.kind == "step":
                found.setdefault((run, entry.key), []).append(entry)
    return {
        step: Recorded(
            attempts=max(entry.attempt for entry in attempts),
            failed=sum(entry.outcome == "failed" for entry in attempts),
            cut_off=sum(entry.outcome == "cut off" for entry in attempts),
            completed=sum(entry.outcome == "completed" for entry in attempts),
        )
        for step, attempts in sorted(found.items(), key=lambda item: item[1][0].at)
    }


def listed(names: Iterable[str]) -> str:
    """Joins words: "a", "a and b", "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def judge(kill: Kill, end: Picture, result: str, expected: str, sigkill: int) -> Verdict:
    """Compares both pictures. Every returned sentence is a broken promise."""
    problems = [
        *_of_the_result(result, expected),
        *_of_the_kill(kill, sigkill),
        *_of_what_had_completed(kill, end),
        *_of_each_step(end),
        *_of_the_dead(kill, end),
    ]
    return Verdict(kill, end, result, problems)


def _of_the_result(result: str, expected: str) -> Iterable[str]:
    if result != expected:
        yield f"the result is {result!r}, and should be {expected!r}"


def _of_the_kill(kill: Kill, sigkill: int) -> Iterable[str]:
    if kill.exit_code != -sigkill:
        yield f"the first worker ended with exit code {kill.exit_code}, not by SIGKILL"
    if not kill.picture.completed:
        yield "nothing had completed at the kill: this proves nothing"
    if not kill.picture.in_flight:
        yield "nothing was in flight at the kill: this proves nothing"


def _of_what_had_completed(kill: Kill, end: Picture) -> Iterable[str]:
    """Checks that what had completed before the kill did not run again."""
    for step in kill.picture.completed:
        before, after = kill.picture.count("begin", step), end.count("begin", step)
        if before != after:
            times = counted(after, "time")
            yield f"{step[1]} had completed before the kill and ran again: {times} in all, {before} before"


def _of_each_step(end: Picture) -> Iterable[str]:
    for step in sorted({note.step for note in end.notes} - set(end.steps)):
        yield f"{step[1]} ran, and the journal does not know it"
    for step, recorded in end.steps.items():
        key = step[1]
        begun = [note.attempt for note in end.notes if note.word == "begin" and note.step == step]
        if recorded.completed != 1:
            yield f"{key} is recorded as completed {counted(recorded.completed, 'time')}"
        if not end.count("effect", step):
            yield f"{key} is recorded as completed and never happened"
        if len(set(begun)) != len(begun):
            yield f"{key} ran twice as the same attempt"
        if max(begun, default=0) > recorded.attempts:
            yield f"{key} ran as attempt {max(begun)}, after the attempt {recorded.attempts} that completed"
        if len({note.idempotency_key for note in end.notes if note.step == step}) > 1:
            yield f"{key} had a different idempotency key in a later attempt"


def _of_the_dead(kill: Kill, end: Picture) -> Iterable[str]:
    later = end.notes[len(kill.picture.notes) :]
    if end.notes[: len(kill.picture.notes)] != kill.picture.notes or any(note.pid == kill.pid for note in later):
        yield "the first worker kept working after its death"
