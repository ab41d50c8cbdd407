"""Watches the journals of one order and its child, and shows them as lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from holdfast.cli.demo.screen import Line, Screen
from holdfast.cli.demo.verdict import Note, Picture, StepId, recorded_steps
from holdfast.client.client import Client
from holdfast.client.run_view import view_of
from holdfast.core.doing import Doing, describe
from holdfast.core.entry import Entry
from holdfast.core.timeline import Timeline
from holdfast.core.turn import decode_row, decode_rows


class Watch:
    """Reads new rows at every look."""

    def __init__(self, client: Client, root: str, screen: Screen) -> None:
        self.pids: dict[str, int] = {}
        self.outage = ""
        """Why nothing happens while there is no worker."""
        self._client = client
        self._screen = screen
        self._root = root
        self._began_at = client.store.clock.now()
        self._lines: dict[str, Timeline] = {root: Timeline()}
        self._labels: dict[str, str] = {root: ""}
        self._seen: dict[str, int] = {root: 0}
        self.holder: str = ""
        """The worker that advances the order or its child, or did last."""

    async def look(self) -> None:
        store = self._client.store
        rows = [row for run, seen in self._seen.items() for row in await store.history(run, after_seq=seen)]
        for row in sorted(rows, key=lambda row: row.seq):
            self._seen[row.run] = row.seq
            for entry in self._lines[row.run].take(decode_row(row)):
                self._follow_child(entry)
                self._show(row.run, entry)
        self._screen.now([self.outage] if self.outage else await self._going_on())

    def say(self, who: str, text: str, style: str = "") -> None:
        """Prints a line of the demo."""
        self._screen.say(Line(self._since(self._client.store.clock.now()), self._name(who), text, style))

    def mark(self, text: str) -> None:
        """Prints a line that stands out."""
        self._screen.mark(Line(self._since(self._client.store.clock.now()), "", text))

    def has_completed(self, key: str) -> bool:
        """Whether the journal says that the step has completed."""
        return any(entry.key == key and entry.outcome == "completed" for entry in self._entries())

    @property
    def has_ended(self) -> bool:
        return any(entry.kind == "ended" for entry in self._lines[self._root].entries)

    def is_waiting_for(self, kind: str) -> bool:
        """Whether the order is parked and waits for something of that kind."""
        return any(entry.kind == kind and entry.goes_on for entry in self._entries())

    async def picture(self, notes: tuple[Note, ...]) -> Picture:
        """Ledger and journal now. Reads the journals again and checks their checksums."""
        timelines: dict[str, list[Entry]] = {}
        for run in self._lines:
            line = Timeline()
            for turn in decode_rows(await self._client.store.history(run)):
                line.take(turn)
            timelines[run] = line.entries
        return Picture(notes, recorded_steps(timelines))

    def name_of(self, step: StepId) -> str:
        """The shown name of a step: steps of the child have its name before theirs."""
        run, key = step
        return f"{self._labels.get(run, '')}{key}"

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _entries(self) -> Iterator[Entry]:
        for line in self._lines.values():
            yield from line.entries

    def _follow_child(self, entry: Entry) -> None:
        if entry.kind == "child" and entry.run not in self._lines:
            self._lines[entry.run], self._seen[entry.run] = Timeline(), 0
            self._labels[entry.run] = f"{entry.name}."

    def _show(self, run: str, entry: Entry) -> None:
        text, style = self._text(run, entry)
        if text:
            at = entry.ended_at if entry.ended_at is not None else entry.at
            who = entry.worker if entry.kind == "step" else self.holder
            self._screen.say(Line(self._since(at), self._name(who), text, style))

    def _text(self, run: str, entry: Entry) -> tuple[str, str]:
        name = self.name_of((run, entry.key))
        match entry.kind, entry.outcome:
            case "step", "completed":
                attempt = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
                return f"{name}{attempt}: completed", "green"
            case "step", "failed":
                _, _, message = entry.error.partition(": ")
                attempt = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
                return f"{name}{attempt}: failed ({message}){self._again(entry)}", "yellow"
            case "sleep", "open":
                seconds = (entry.until - entry.at).total_seconds() if entry.until else 0
                return f"sleeps {seconds:.1f} s: parked, held by no worker", ""
            case "signal", "open":
                return f"waits for signal {entry.name}: parked", ""
            case "signal", "received":
                return f"signal {entry.name} received", "green"
            case "child", "open":
                return f"child run {entry.name} started", ""
            case "child", "completed":
                return f"child run {entry.name}: completed", "green"
            case (("claimed" | "taken over"), _) if entry.name != self.holder:
                return self._takes(entry), "bold"
            case _:
                return "", ""

    def _again(self, entry: Entry) -> str:
        if entry.until is None or entry.ended_at is None:
            return ""
        return f", again in {(entry.until - entry.ended_at).total_seconds():.1f} s"

    def _takes(self, entry: Entry) -> str:
        is_first, self.holder = not self.holder, entry.name
        if is_first:
            return "takes the order"
        count = sum(entry.kind == "step" and entry.outcome == "completed" for entry in self._entries())
        return f"takes over; {count} completed step{'s' * (count > 1)}: read back, not run"

    # -- what happens -------------------------------------------------------------------------------------------------

    async def _going_on(self) -> list[str]:
        now = self._client.store.clock.now()
        shown: list[str] = []
        for run, line in self._lines.items():
            for entry in line.entries:
                if entry.kind == "step" and entry.outcome == "open":
                    attempt = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
                    seconds = max(0.0, (now - entry.at).total_seconds())
                    name = f"{self.name_of((run, entry.key))}{attempt}"
                    shown.append(f"{name}: in flight for {seconds:.1f} s on {self._name(entry.worker)}")
            row = await self._client.store.get(run)
            if row is not None:
                doing = view_of(row, now).doing
                waits = tuple(one for one in doing.now if one.kind not in {"step", "child"})
                shown += [f"{self._labels[run]}{describe(Doing((one,)), now)}" for one in waits]
        return shown

    def _name(self, worker: str) -> str:
        return f"{worker} ({self.pids[worker]})" if worker in self.pids else worker

    def _since(self, at: datetime) -> float:
        return max(0.0, (at - self._began_at).total_seconds())
