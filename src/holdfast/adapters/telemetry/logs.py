"""Facts as log lines: level, words and fields of each kind.

A failed or paused run is logged at Python's default level too, with the command that shows more. Messages and arguments
are separate, so that error trackers can group them, and errors are passed as `exc_info`. The name of a line is
`record.fact`: structlog keeps its message in `event`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from operator import attrgetter
from types import TracebackType
from typing import Any, TypeAlias, cast

import msgspec

from holdfast import errors
from holdfast.adapters.telemetry.listeners import Listeners
from holdfast.core.failure import authored_traceback
from holdfast.core.plurals import counted
from holdfast.ports import facts as t
from holdfast.ports.telemetry import Listener

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

WORKER, STORE = "holdfast.worker", "holdfast.store"
FIELDS = ("run", "workflow", "worker", "epoch", "attempt")
"""The fields of a line besides its words, if the fact has them; the key of a step is `step`."""


class Line(msgspec.Struct, frozen=True):
    """How a kind of fact is logged. `args` are for the words; `raised` is the error to show with its traceback."""

    name: str
    level: int
    words: str
    args: Callable[[Any], object]
    logger: str = WORKER
    raised: Callable[[Any], BaseException | None] = lambda _: None


class Words(msgspec.Struct, frozen=True):
    """The words of one fact, where they depend on more than its kind."""

    level: int
    words: str
    args: tuple[object, ...]
    raised: BaseException | None = None
    name: str = ""


class Log:
    """The listener. Without a handler anywhere, Python itself prints what is at WARNING or above."""

    name = "logging"

    def __init__(self) -> None:
        self._called: set[str] = set()

    @contextmanager
    def raising(self, run: str) -> Generator[None]:
        """While a call waits that raises how this run ends or why it is paused: that is not logged as well. An attempt
        that is not tried again has no traceback in the log either, since the error shows it."""
        self._called.add(run)
        try:
            yield
        finally:
            self._called.discard(run)

    def wanted(self) -> frozenset[type[t.Fact]]:
        """The kinds whose level is enabled."""
        worker, store = _LOGGERS
        state = (*map(worker.isEnabledFor, _LEVELS), *map(store.isEnabledFor, _LEVELS))
        known = _WANTED.get(state)
        return _WANTED.setdefault(state, self._wanted()) if known is None else known

    def _wanted(self) -> frozenset[type[t.Fact]]:
        return frozenset(kind for kind, x in LINES.items() if logging.getLogger(x.logger).isEnabledFor(x.level))

    def on(self, fact: t.Fact) -> None:
        is_raised = bool(self._called) and getattr(fact, "run", "") in self._called
        if is_raised and isinstance(fact, t.RunFailed | t.RunPaused | t.RunQuarantined):
            return
        line = LINES[type(fact)]
        said = line.args(fact)
        if not isinstance(said, Words):
            args = cast("tuple[object, ...]", said) if isinstance(said, tuple) else (said,)
            said = Words(line.level, line.words, args, line.raised(fact))
        error = said.raised
        if is_raised and isinstance(fact, t.AttemptFailed) and fact.retry_at is None:
            error = None
        extra: dict[str, object] = {"fact": said.name or line.name}
        extra |= {name: found for name in FIELDS if (found := getattr(fact, name, None))}
        if (key := getattr(fact, "key", None)) is not None:
            extra["step"] = key
        logging.getLogger(line.logger).log(
            said.level, said.words, *said.args, extra=extra, exc_info=_shown(fact, error)
        )


def logged(others: Iterable[Listener] = (), log: Log | None = None) -> Listeners:
    """Telemetry with the log and these listeners."""
    return Listeners([log or Log(), *others])


# -- words that depend -------------------------------------------------------------------------------------------------


def _parked(fact: t.RunParked) -> tuple[object, ...]:
    return fact.run, "" if fact.until is None else f" until {fact.until:%Y-%m-%d %H:%M:%S} UTC"


def _why(fact: t.RunFailed | t.AttemptFailed, most: int) -> str:
    is_said = not fact.place or fact.place in fact.message[:most]
    return f"{fact.type}: {fact.message[:most]}{'' if is_said else f' ({fact.place})'}"


def _run_failed(fact: t.RunFailed) -> tuple[object, ...]:
    return fact.run, _why(fact, 300), fact.run


def _run_error(fact: t.RunFailed) -> BaseException:
    text = f"run {fact.run} of {fact.workflow} failed: {fact.type}: {fact.message}"
    return errors.RunFailed(text, run_id=fact.run, type=fact.type, message=fact.message, traceback=fact.traceback)


def _attempt_failed(fact: t.AttemptFailed) -> tuple[object, ...]:
    then = "it is not tried again"
    if fact.retry_at is not None:
        then = f"tried again at {fact.retry_at:%H:%M:%S} UTC"
    return fact.run, fact.key, fact.attempt, _why(fact, 200), then


def _signal_lost(fact: t.SignalLost) -> tuple[object, ...]:
    why = "another message has its id" if fact.why == "conflict" else f"the run is {fact.why}"
    return fact.run, fact.what, why


def _shown(fact: t.Fact, error: BaseException | None) -> _ExcInfo | None:
    """The error with its traceback. That of a body begins with the author's code."""
    if error is None:
        return None
    is_of_body = isinstance(fact, t.AttemptFailed)
    return type(error), error, authored_traceback(error) if is_of_body else error.__traceback__


def _attempt_error(fact: t.AttemptFailed) -> BaseException:
    """The error itself; for an attempt in another process, one with the traceback that it left."""
    if fact.error is not None:
        return fact.error
    error = errors.StepFailed(
        f"{fact.type}: {fact.message}",
        step=fact.step,
        attempts=fact.attempt,
        type=fact.type,
        message=fact.message,
        traceback=fact.traceback,
    )
    if fact.traceback:
        error.add_note(fact.traceback.rstrip())
    return error


def _paused(fact: t.RunPaused) -> Words:
    level = logging.WARNING if fact.was_opened else logging.ERROR
    return Words(
        level,
        "run %s: paused (%s): %s. More: holdfast show %s",
        (fact.run, fact.reason, fact.detail.rstrip("."), fact.run),
    )


def _put_off(fact: t.RunPutOff) -> Words:
    if fact.kind == "contended":
        return Words(logging.INFO, "run %s: not touched, %s", (fact.run, fact.detail), name=fact.kind)
    words = "run %s: %s" if fact.kind == "paused" else "run %s: put off, %s"
    return Words(logging.WARNING, words, (fact.run, fact.detail), name=fact.kind)


def _started(fact: t.WorkerStarted) -> tuple[object, ...]:
    workflows = ", ".join(fact.workflows) or "no workflow"
    return fact.worker, workflows, ", ".join(fact.queues), fact.slots, fact.store


def _freed(fact: t.RunsFreed) -> tuple[object, ...]:
    return (
        fact.worker,
        fact.runs,
        "its earlier instance are free" if fact.were_own else "workers that disappeared are free again",
    )


def _sparingly(failures: int, level: int = logging.WARNING) -> int:
    """The level of a failure that follows others: one line whenever their number has doubled."""
    return level if failures & (failures - 1) == 0 else logging.DEBUG


def _heartbeat(fact: t.HeartbeatFailed) -> Words:
    """The first failure whole; then one line whenever their number has doubled."""
    if fact.failures == 1:
        return Words(logging.WARNING, "heartbeat failed, retrying in %.1f s: %s", (fact.retry_in, fact.error))
    said = "%d heartbeats failed in a row, the last with: %s"
    return Words(_sparingly(fact.failures), said, (fact.failures, fact.error))


def _checkpoint(fact: t.CheckpointFailed) -> Words:
    """The first failure with its traceback; then one line whenever their number has doubled."""
    if fact.failures == 1:
        said = "a checkpoint of the store failed; its log grows until one succeeds: %s"
        return Words(logging.WARNING, said, (fact.error,), fact.error)
    said = "%d checkpoints of the store failed in a row, the last with: %s"
    return Words(_sparingly(fact.failures), said, (fact.failures, fact.error))


def _trouble(fact: t.Trouble | t.StoreTrouble) -> Words:
    """The first failure whole; then one line whenever their number has doubled."""
    worker, is_bug, failures = "", False, 1
    if isinstance(fact, t.Trouble):
        worker, is_bug, failures = fact.worker, fact.is_bug, fact.failures
    about = f"run {fact.run}: " if fact.run else f"worker {worker}: " if worker else ""
    level = _sparingly(failures, logging.ERROR if is_bug else logging.WARNING)
    what = fact.what if failures == 1 else f"{fact.what} ({counted(failures, 'time')} in a row)"
    return Words(level, "%s%s: %s", (about, what, fact.error), None if fact.is_known or failures > 1 else fact.error)


# -- the table ---------------------------------------------------------------------------------------------------------

_info, _warning, _error = logging.INFO, logging.WARNING, logging.ERROR
_of = attrgetter

LINES: dict[type[t.Fact], Line] = {
    t.RunClaimed: Line("claimed", _info, "run %s: claimed", _of("run")),
    t.RunTakenOver: Line("taken over", _info, "run %s: taken over", _of("run")),
    t.RunParked: Line("parked", _info, "run %s: parked%s", _parked),
    t.RunReleased: Line("released", _info, "run %s: released", _of("run")),
    t.RunEnded: Line("finished", _info, "run %s: %s", _of("run", "status")),
    t.RunFailed: Line("finished", _error, "run %s: failed: %s. More: holdfast show %s", _run_failed, raised=_run_error),
    t.RunPaused: Line("paused", _warning, "", _paused),
    t.RunQuarantined: Line(
        "paused", _error, "run %s: paused (quarantined): %s. More: holdfast show %s", _of("run", "detail", "run")
    ),
    t.RunFenced: Line("fenced", _warning, "run %s: %s; dropped", _of("run", "why")),
    t.RunDropped: Line("abandoned", _warning, "run %s: %s; dropped", _of("run", "why")),
    t.RunPutOff: Line("put off", _warning, "", _put_off),
    t.RunStray: Line(
        "stray", _warning, "run %s: the store lists it as ours, but this worker does not know it; released", _of("run")
    ),
    t.RunFound: Line("found", _info, "run %s: started; the store's answer was lost", _of("run")),
    t.RunDiverged: Line(
        "diverged", _error, "run %s has ended, but its code is not deterministic: %s", _of("run", "error")
    ),
    t.RunDeleted: Line("deleted", _info, "run %s: deleted with its tree of %d, by %s", _of("run", "runs", "actor")),
    t.RunRedacted: Line("redacted", _info, "run %s: redacted in %d places, by %s", _of("run", "places", "actor")),
    t.RunCompacted: Line("compacted", _info, "run %s: %d journal rows compacted into one", _of("run", "rows")),
    t.BodyLeftBehind: Line(
        "left behind",
        _warning,
        "run %s: its body would not end when it left memory (`except BaseException` in a loop, or real work in a `def` "
        "workflow); it is left behind and can do nothing durable",
        _of("run"),
    ),
    t.SignalLost: Line("signal lost", _warning, "run %s: %s was not delivered: %s", _signal_lost),
    t.MessageDamaged: Line("message damaged", _error, "run %s: %s; it is paused", _of("run", "why")),
    t.StepStarted: Line("step started", _info, "run %s: step %s started, attempt %d", _of("run", "key", "attempt")),
    t.StepCompleted: Line("step ended", _info, "run %s: step %s completed", _of("run", "key")),
    t.StepStopped: Line("step ended", _info, "run %s: step %s stopped: %s", _of("run", "key", "why")),
    t.AttemptFailed: Line(
        "step ended", _warning, "run %s: step %s failed, attempt %d: %s; %s", _attempt_failed, raised=_attempt_error
    ),
    t.TurnsGivenUp: Line(
        "given up",
        _warning,
        "turns not accepted within %.1f s are given up; other workers resume their runs",
        _of("seconds"),
    ),
    t.StoreReachable: Line(
        "store reachable", _warning, "worker %s: the store answers again, after %.1f s", _of("worker", "seconds")
    ),
    t.CheckpointFailed: Line("checkpoint failed", _warning, "", _checkpoint, logger=STORE),
    t.CheckpointWorks: Line(
        "checkpoint works",
        _warning,
        "a checkpoint of the store succeeded after %d failures",
        _of("failures"),
        logger=STORE,
    ),
    t.StoreLogGrew: Line(
        "log grew",
        _warning,
        "the log of the store has %d pages of 4 kB and cannot be emptied: a process keeps a read transaction "
        "open. `holdfast doctor` says how to find it.",
        _of("pages"),
        logger=STORE,
    ),
    t.WorkerStarted: Line("started", _info, "worker %s: serving %s on %s, %d slots, store %s", _started),
    t.WorkerStopped: Line("stopped", _info, "worker %s: stopped", _of("worker")),
    t.WorkerLate: Line(
        "late",
        _warning,
        "worker %s: %d run(s) did not stop in time; other workers will take them over",
        _of("worker", "runs"),
    ),
    t.WorkerTwin: Line(
        "twin",
        _warning,
        "worker %s: another live worker has this id, process %d on %s, and took its runs. Give each an id of its own.",
        _of("worker", "pid", "host"),
    ),
    t.FlowServed: Line("serving", _info, "worker %s: serving flow %s as it is stored", _of("worker", "workflow")),
    t.RunsFreed: Line("freed", _info, "worker %s: %d run(s) of %s", _freed),
    t.Swept: Line(
        "swept",
        _info,
        "worker %s: removed %d run(s) past their retention, %d journal rows and %d blob(s)",
        _of("worker", "runs", "rows", "blobs"),
    ),
    t.HeartbeatFailed: Line("heartbeat failed", _warning, "", _heartbeat),
    t.LeaseLost: Line(
        "lease lost",
        _warning,
        "worker %s: its lease had expired; runs that others took over are dropped",
        _of("worker"),
    ),
    t.LoopBlocked: Line(
        "blocked",
        _warning,
        "the event loop has been blocked for %.1f s by %s: move blocking work into a sync step",
        _of("seconds", "place"),
    ),
    t.ProcessStopped: Line(
        "process stopped",
        _warning,
        "this process stood still for %.1f s (SIGSTOP, a suspended machine, a debugger): its leases may have expired",
        _of("seconds"),
    ),
    t.GrantsLost: Line(
        "manager lost",
        _warning,
        "worker %s: the lease manager does not answer; using the store's leases: %s",
        _of("worker", "error"),
    ),
    t.GrantsBack: Line("manager back", _warning, "worker %s: the lease manager answers again", _of("worker")),
    t.NoticesLost: Line("notices lost", _info, "no notices for now; workers only poll: %s", _of("error"), logger=STORE),
    t.StoreTrouble: Line("trouble", _warning, "", _trouble, logger=STORE),
    t.Trouble: Line("trouble", _warning, "", _trouble),
    t.HookFailed: Line(
        "hook failed",
        _warning,
        "hook %s: %s raised; runs are not affected, and this is logged once",
        _of("hook", "place"),
        raised=_of("error"),
    ),
}
"""What the log says for each kind; other kinds are not logged."""

_LOGGERS = (logging.getLogger(WORKER), logging.getLogger(STORE))
_LEVELS = (_info, _warning, _error)
_WANTED: dict[tuple[bool, ...], frozenset[type[t.Fact]]] = {}

SILENT: frozenset[type[t.Fact]] = frozenset({t.RunStarted, t.RunBegan, t.TurnsCommitted, t.StoreUnreachable})
"""Kinds that only other listeners get: the log has another line for the same, or they come too often."""
