"""The timeline of a run: its journal as entries that people read, for `show`, `follow` and the dashboard.

One entry for each attempt of a step, each sleep, wait, child and pause, and one for each momentary event. What takes
time begins in one row and ends in a later one; until then its outcome is "open".

Pure and bounded: at most `most` entries are kept (those that ended longest ago are dropped first, and counted), and
texts are shortened.

A duration is what the journal can know: from the row after which an attempt could begin to the row that holds its
outcome. An attempt that was cut off with its worker has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from holdfast.core import events as e
from holdfast.core.entry import (
    Entry,
    Kind,
    Outcome,
    attributes_text,
    error_text,
    list_text,
    payload_text,
    rest_text,
    shortened,
)
from holdfast.core.plurals import counted
from holdfast.core.turn import Turn

MOST = 1000
"""Default number of entries to keep."""


def timeline(turns: Iterable[Turn], *, most: int = MOST) -> list[Entry]:
    """The entries of a journal, in the order in which they began."""
    line = Timeline(most)
    for turn in turns:
        line.take(turn)
    return line.entries


class Timeline:
    """The entries of one run, taken row by row. `omitted` counts those no longer kept."""

    def __init__(self, most: int = MOST) -> None:
        self.omitted: int = 0
        self._most = most
        self._entries: dict[int, Entry] = {}
        self._over: deque[int] = deque()
        self._changed: dict[int, Entry] = {}
        self._count = 0
        self._known: dict[str, Entry] = {}  # by key: what is open, or may still change
        self._cut_off: dict[str, int] = {}  # by key: attempts that cost nothing of the budget
        self._pause: Entry | None = None
        self._signals: dict[str, str] = {}
        self._asked: dict[str, str] = {}  # updates without an answer, by message: their names
        self._worker = ""
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self._ordinal = self._epoch = 0

    @property
    def entries(self) -> list[Entry]:
        """The entries in the order in which they began."""
        return list(self._entries.values())

    def take(self, turn: Turn) -> list[Entry]:
        """Takes the next row. Returns the entries that it began or changed."""
        self._at, self._ordinal, self._epoch = turn.at, turn.ordinal, turn.epoch
        self._changed = {}
        released = [event for event in turn.events if isinstance(event, e.Released)]
        for event in (*(x for x in turn.events if not isinstance(x, e.Released)), *released):
            self._take(event)
        return list(self._changed.values())

    # -- events --------------------------------------------------------------------------------------------------------

    def _take(self, event: e.AnyEvent) -> None:
        match event:
            case e.StepScheduled() | e.AttemptStarted():
                self._begin_attempt(event)
            case e.StepCompleted():
                self._settle(event.key, "completed")
            case e.StepFailed():
                self._settle(event.key, "failed", error=error_text(event.failure))
            case e.AttemptFailed():
                self._fail_attempt(event)
            case e.StepAbandoned():
                self._end(event.key, "abandoned")
            case e.SleepStarted():
                self._begin("sleep", event.key, key=event.key, until=event.until)
            case e.WaitStarted():
                self._begin(event.kind, event.name, key=event.key, until=event.until)
            case e.ChildStarted():
                self._begin("child", event.workflow, key=event.key, until=event.until, run=event.run)
            case e.TimerFired():
                self._fire(event)
            case e.WaitEnded():
                self._end_wait(event)
            case e.TopicReceived():
                self._settle(event.key, "received", actor=event.sender)
            case e.ChildEnded():
                self._end_child(event)
            case e.SignalReceived():
                self._signals[event.message] = event.name
                if isinstance(event, e.UpdateReceived):
                    self._asked[event.message] = event.name
                replaced = f"replaced: {event.reason}".removesuffix(": ") if event.replaced_by else ""
                kind: Kind = "asked" if isinstance(event, e.UpdateReceived) else "received"
                self._note(kind, event.name, run=event.sender, actor=event.replaced_by, detail=replaced)
            case e.SendSettled():
                self._note("settled", event.name or event.key, key=event.key, run=event.to, detail=event.status)
            case e.MessageSent():
                self._note("sent", event.name, key=event.key, run=event.to, detail=event.kind)
            case e.Exposed():
                self._note("exposed", event.name, detail=payload_text(event))
            case e.Streamed():
                self._note("streamed", event.name, detail=counted(event.parts, "part"))
            case e.Answered():
                name, outcome = self._asked.pop(event.message, ""), event.outcome
                self._note("answered", name, detail=payload_text(event), outcome=outcome)
            case e.AttributesSet():
                self._note("attributes", detail=attributes_text(event.attributes))
            case e.Patched():
                self._note("patched", event.name)
            case e.Entered():
                self._note("entered", event.state, key=event.key)
            case e.Kept():
                self._note("kept", detail=list_text(event.keys))
            case e.InputGiven():
                self._note("given", event.into, detail=payload_text(event))
            case e.PredecessorEnded():
                self._note("predecessor", run=event.run)
            case _:
                self._take_whole(event)

    def _take_whole(
        self,
        event: e.Started
        | e.Compacted
        | e.Adopted
        | e.Claimed
        | e.Released
        | e.Limited
        | e.HeldBack
        | e.CancelRequested
        | e.DeadlineReached
        | e.PassStarted
        | e.Paused
        | e.Resumed
        | e.MessageDropped
        | e.Terminal
        | e.RetryPlanned
        | e.Continued,
    ) -> None:
        """Handles events of the run as a whole."""
        match event:
            case e.Started():
                self._start(event)
            case e.Compacted():
                self._note("compacted", detail=f"rows 1 to {event.rows}")
            case e.Adopted():
                self._adopt(event)
            case e.Claimed():
                self._claim(event)
            case e.Released():
                self._release(event)
            case e.Limited():
                self._limit(event)
            case e.HeldBack():
                self._hold_back(event)
            case e.CancelRequested():
                self._note("cancel", until=event.grace_until, actor=event.actor, detail=shortened(event.reason))
            case e.DeadlineReached():
                self._note("deadline", until=event.grace_until)
            case e.PassStarted():
                self._note("pass", attempt=event.number)
            case e.Paused():
                self._end_pause()
                self._pause = self._begin("paused", event.reason, actor=event.actor, detail=shortened(event.detail))
            case e.Resumed():
                self._end_pause()
                self._note("resumed", actor=event.actor)
            case e.MessageDropped():
                what = str(event.number) if event.number else event.name
                self._note("dropped", what, actor=event.actor, detail=shortened(event.reason))
            case e.RetryPlanned():
                self._leave("step")
                self._note("retry", until=event.at, of=event.of, error=error_text(event.failure))
            case e.Continued():
                self._leave()
                self._note("continued", event.workflow)
            case _:
                self._take_end(event)

    def _start(self, event: e.Started) -> None:
        detail = f"retry of {event.retried_from}" if event.retried_from else ""
        detail = f"begins after the end of run {list_text(event.after)}" if event.after else detail
        self._note(
            "started",
            event.workflow,
            until=event.available_at,
            run=event.parent,
            actor=event.actor,
            detail=detail,
        )

    def _take_end(self, event: e.Terminal) -> None:
        match event:
            case e.Completed():
                self._finish(outcome="completed", detail=rest_text(event.left, ()))
            case e.Failed():
                rest = rest_text(event.left, event.undone)
                self._finish(outcome="failed", detail=rest, error=error_text(event.failure))
            case e.Cancelled():
                rest = rest_text(event.left, event.undone)
                reason = shortened(event.reason)
                self._finish(outcome="cancelled", actor=event.actor, detail=rest, error=reason)
            case _:
                assert_never(event)

    def _adopt(self, event: e.Adopted) -> None:
        for fact in event.facts:
            if isinstance(fact, e.SignalReceived):
                self._signals[fact.message] = fact.name
            elif isinstance(fact, e.WaitEnded):
                self._signals.pop(fact.message, None)
        steps = [fact.key for fact in event.facts if isinstance(fact, e.StepCompleted)]
        self._note("adopted", detail=list_text(steps))

    def _claim(self, event: e.Claimed) -> None:
        self._worker = event.worker
        self._note("taken over" if event.restarted else "claimed", event.worker)
        for key in event.restarted:
            cut = self._end(key, "cut off", ended_at=None)
            if cut is not None:
                self._cut_off[key] = self._cut_off.get(key, 0) + 1
                of = None if cut.of is None else cut.of + 1
                self._begin("step", cut.name, key=key, attempt=cut.attempt + 1, of=of, detail=cut.detail)
        for key in event.begun:
            waiting = self._known.get(key)
            if waiting is not None:
                self._change(waiting, outcome="open", at=self._at, worker=self._worker, epoch=self._epoch)

    def _release(self, event: e.Released) -> None:
        for key in event.unstarted:
            step = self._known.get(key)
            if step is not None and step.outcome == "open":
                self._change(step, outcome="not begun")
        self._note("released", event.worker)
        self._worker = ""

    def _hold_back(self, event: e.HeldBack) -> None:
        held = self._end(event.key, "cut off", detail=f"quiets limit {event.limit}", until=event.until)
        if held is not None:
            self._begin("step", held.name, key=event.key, attempt=event.attempt + 1, of=held.of)

    def _limit(self, event: e.Limited) -> None:
        for key in event.begun:
            step = self._known.get(key)
            if step is not None:
                self._change(step, outcome="open", at=self._at, worker=self._worker, epoch=self._epoch, detail="")
        for key, names in event.waiting.items():
            step = self._known.get(key)
            if step is not None and step.outcome == "open":
                self._change(step, outcome="not begun", detail=f"waits for limit {names}")

    def _begin_attempt(self, event: e.StepScheduled | e.AttemptStarted) -> None:
        before = self._known.get(event.key)
        name, detail, of, attempt = event.key, "", None, 1
        if before is not None:
            name, detail, of, attempt = before.name, before.detail, before.of, before.attempt + 1
        if isinstance(event, e.StepScheduled):
            name = event.step or event.key
            detail = f"undoes {event.undoes}" if event.undoes else ""
        else:
            attempt = event.attempt
        self._begin("step", name, key=event.key, attempt=attempt, of=of, detail=detail)

    def _fail_attempt(self, event: e.AttemptFailed) -> None:
        """Attempts that were cut off do not count against the budget, so more may follow; "attempt 4 of 3" is never
        shown."""
        of = None if event.of is None else max(event.of + self._cut_off.get(event.key, 0), event.attempt + 1)
        self._end(event.key, "failed", error=error_text(event.failure), of=of, until=event.retry_at)

    def _fire(self, event: e.TimerFired) -> None:
        entry = self._known.get(event.key)
        if entry is None:
            return  # a time-out of asyncio's: what it ended says so itself
        if entry.kind == "child":
            self._end(event.key, "timed out")
        else:
            self._settle(event.key, "woke" if entry.kind == "sleep" else "timed out")

    def _end_wait(self, event: e.WaitEnded) -> None:
        name = self._signals.pop(event.message, "")
        entry = self._known.get(event.key)
        if entry is not None and entry.kind == "child":
            self._end(event.key, "abandoned")
            return
        if entry is None and event.message:
            self._begin("signal", name, key=event.key)  # it arrived before the run waited
        self._settle(event.key, "received" if event.message else "abandoned")

    def _end_child(self, event: e.ChildEnded) -> None:
        entry = self._known.get(event.key)
        if entry is not None and entry.run == event.run:
            self._settle(event.key, event.status, error=error_text(event.failure) if event.failure is not None else "")

    # -- entries -------------------------------------------------------------------------------------------------------

    def _begin(self, kind: Kind, name: str, *, key: str = "", **more: Any) -> Entry:
        entry = self._add(kind, name, key=key, outcome="open", **more)
        if key:
            self._known[key] = entry
        return entry

    def _note(self, kind: Kind, name: str = "", **more: Any) -> None:
        self._over.append(self._add(kind, name, **more).number)
        self._forget()

    def _end(self, key: str, outcome: Outcome, **more: Any) -> Entry | None:
        """Ends what is open under that key; more may follow. What had ended keeps its outcome."""
        entry = self._known.get(key)
        if entry is None or not entry.goes_on:
            return entry
        return self._close(entry, outcome, **more)

    def _settle(self, key: str, outcome: Outcome, **more: Any) -> None:
        """The final event for that key. If something else had ended it, it is only mentioned."""
        entry = self._known.get(key)
        if entry is None:
            return
        if entry.goes_on:
            self._close(entry, outcome, **more)
        elif entry.outcome != "failed":
            self._change(entry, detail=f"{outcome} later", **more)
        del self._known[key]
        self._cut_off.pop(key, None)

    def _leave(self, kind: Kind | None = None) -> None:
        """The body has ended: nothing waits for what is open. Steps are remembered for a later pass."""
        for entry in list(self._known.values()):
            if kind is None or entry.kind == kind:
                self._end(entry.key, "left", ended_at=None)
        if kind is None:
            self._known.clear()
            self._cut_off.clear()

    def _finish(self, **more: Any) -> None:
        self._leave()
        self._end_pause()
        self._note("ended", **more)

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._close(self._pause, "over")
            self._pause = None

    def _add(self, kind: Kind, name: str, **more: Any) -> Entry:
        self._count += 1
        entry = Entry(
            number=self._count,
            ordinal=self._ordinal,
            at=self._at,
            kind=kind,
            name=name,
            worker=self._worker,
            epoch=self._epoch,
            **more,
        )
        self._entries[entry.number] = self._changed[entry.number] = entry
        self._forget()
        return entry

    def _close(self, entry: Entry, outcome: Outcome, **more: Any) -> Entry:
        self._over.append(entry.number)
        return self._change(entry, outcome=outcome, **{"ended_at": self._at, **more})

    def _change(self, entry: Entry, **more: Any) -> Entry:
        changed = msgspec.structs.replace(entry, **more)
        self._changed[entry.number] = changed
        if entry.number in self._entries:
            self._entries[entry.number] = changed
        if entry.key:
            self._known[entry.key] = changed
        return changed

    def _forget(self) -> None:
        while len(self._entries) > self._most:
            number = self._over.popleft() if self._over else next(iter(self._entries))
            if self._entries.pop(number, None) is not None:
                self.omitted += 1
