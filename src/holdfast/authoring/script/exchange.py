"""What the code of a run asks for, and what the journal answers.

The calls of a body, its timers and its verbs all ask here. Live, what they ask for becomes the commands of the turn.
During a replay each request is compared with the journal, and the first difference stops the program. This module does
not know what its program waits for: steps, signals and children build on it (`program`).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from holdfast.authoring.script.calls import UNREADABLE
from holdfast.authoring.script.earlier import Earlier
from holdfast.authoring.script.loop import DurableLoop, Timer
from holdfast.authoring.script.place import Place, authors_place
from holdfast.authoring.script.recorded_turns import ADVICE, Cursor, is_same, say_command, say_event
from holdfast.authoring.script.timers import Timers, later
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.call_keys import Keys
from holdfast.core.passes import Beginning, Memo
from holdfast.core.payload import Arguments, Shape
from holdfast.core.redaction import NOTHING_HIDDEN, Redaction
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.errors import Diverged, HoldfastError, NotAllowedHere, NotDecodable

if TYPE_CHECKING:
    from holdfast.authoring.script.calls import DurableCall


class Exchange:
    """The requests of one pass of a script run."""

    __slots__ = (
        *("_broken", "_commands", "_is_over", "_numbers", "_patches", "_random", "_timer_keys", "_timers"),
        *("announced", "at", "attributes", "beginning", "cancel", "continuing", "cursor", "earlier", "exposed"),
        *("is_plain", "keys", "loop", "past_deadline", "redaction", "sent", "settings", "spec"),
    )

    def __init__(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> None:
        self.spec = spec
        self.beginning = beginning
        self.settings = settings
        self.loop: DurableLoop = DurableLoop(self, budget=settings.activation_budget)
        self.at: datetime = beginning.at
        self.keys: Keys = Keys(beginning.undone)
        self.earlier: Earlier | None = Earlier(beginning) if beginning.memo else None
        self.exposed: dict[str, bytes] = {}
        self.sent: dict[str, tuple[int, int]] = {}  # parts and bytes sent to each stream in this turn
        self.attributes: dict[str, str] = dict(beginning.attributes)
        self.continuing: c.ContinueAs | None = None
        self.cancel: e.CancelRequested | None = None
        self.past_deadline: bool = False
        self.is_plain: bool = True  # until it asks for a timer, or sends a signal
        self.redaction: Redaction = NOTHING_HIDDEN
        self.cursor: Cursor | None = None
        self.announced: dict[int, DurableCall[Any]] = {}  # made and not awaited, by number
        self._commands: list[c.Command] = []
        self._broken: HoldfastError | None = None
        self._is_over = False
        self._numbers = 0
        self._timers: Timers | None = None
        self._timer_keys: dict[int, str] = {}
        self._patches = dict.fromkeys(beginning.patches, True)
        self._random: random.Random | None = None

    @property
    def is_replaying(self) -> bool:
        """Whether recorded turns are being replayed."""
        return self.cursor is not None

    @property
    def is_quiet(self) -> bool:
        """Whether log lines of the author are suppressed: they were logged before, or the program is being closed."""
        return self.cursor is not None or self.loop.unwinding

    @property
    def rng(self) -> random.Random:
        """Random numbers that follow from the run, the same in every pass over the same arguments."""
        if self._random is None:
            self._random = random.Random(self.beginning.identity)
        return self._random

    @property
    def timers(self) -> Timers:
        """Made when first needed: most programs only ask for steps."""
        if self._timers is None:
            self._timers, self.is_plain = Timers(), False
        return self._timers

    def set_time(self, at: datetime) -> None:
        """Sets the time of the current turn."""
        self.at = at
        if self.sent:
            self.sent.clear()
        self.loop.begin_turn(at.timestamp())

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def stop(self, error: HoldfastError) -> None:
        """Stops the program: it cannot continue."""
        self._broken = self._broken or error

    # -- asked by calls ------------------------------------------------------------------------------------------------

    def take_key(self, name: str) -> str:
        """The key of the next call with that name. A key whose effect an earlier pass took back is never used again."""
        return self.keys.take(name)

    def key_of(self, key: str, name: str, args: bytes, arguments: Arguments) -> str:
        """The key of a step or child with these arguments: its own, or the one that an earlier pass used."""
        if self.earlier is None:
            return key
        is_only_task = len(self.loop.unfinished_tasks()) <= 1
        return self.earlier.key_of(key, name, args, arguments, self.keys, is_only_task=is_only_task)

    def announce(self, call: DurableCall[Any]) -> int:
        """Remembers a call until it is awaited."""
        if self._is_over and not self.loop.unwinding:
            raise NotAllowedHere(f"{call.key}: the run has ended and accepts no further durable calls")
        self._numbers = number = self._numbers + 1
        self.announced[number] = call
        return number

    def read(self, shape: Shape[Any], data: Any, advice: str = "") -> Any:
        """Decodes stored data. If it does not match its type, the program stops, and the author's code never sees
        it."""
        try:
            return shape.decode(data)
        except NotDecodable as error:
            self.stop(NotDecodable(f"{error} {advice}", path=error.path) if advice else error)
            return UNREADABLE

    def ask(self, command: c.Command, where: Place | None = None, reads: Arguments | None = None) -> e.AnyEvent | None:
        """Asks for something. During a replay, returns the event that recorded it."""
        cursor = self.cursor
        if cursor is None:
            if not self._is_over:
                self._commands.append(command)
            return None
        if self._broken is not None or cursor.skips(command):
            return None
        expected = cursor.expected()
        if expected is None or not is_same(expected, command, reads):
            self.diverge(expected, command, where or authors_place())
            return None
        cursor.confirm()
        return expected

    def memo(self, key: str) -> Memo | None:
        """What an earlier pass left under that key."""
        memos = self.beginning.memo
        return memos.get(key) if memos else None

    def diverge(self, expected: e.AnyEvent | None, command: c.Command | None, where: Place | None) -> None:
        """Stops the program: the journal and the code differ."""
        recorded, asked = say_event(expected), say_command(command)
        turn = self.cursor.turn if self.cursor is not None else None
        at = f"at row {turn.ordinal} " if turn is not None else ""
        said = f"{at}the journal says {recorded} but the code asked for {asked}{f' ({where})' if where else ''}"
        self.part(said, journal=recorded, code=asked, where=str(where or ""))

    def part(self, said: str, *, journal: str, code: str, where: str = "") -> None:
        """Stops the program: the journal holds one thing and the code asked for another."""
        turn = self.cursor.turn if self.cursor is not None else None
        row = turn.ordinal if turn is not None else 0
        message = f"run {self.beginning.run}: {said}. {ADVICE}"
        self.stop(Diverged(message, row=row, journal=journal, code=code, where=where))

    # -- other verbs ---------------------------------------------------------------------------------------------------

    def sleep_until(self, command: c.StartTimer, where: Place | None) -> datetime:
        """Asks for a sleep and returns its end: the one that was recorded first, if any."""
        memo = self.memo(command.key)
        if memo is not None and memo.settled is None and isinstance(memo.opened, e.SleepStarted):
            return memo.opened.until
        recorded = self.ask(command, where)
        return recorded.until if isinstance(recorded, e.SleepStarted) else command.until

    def patched(self, name: str) -> bool:
        """Whether this run takes the new path of a change: decided at the first call, and the same afterwards."""
        known = self._patches.get(name)
        if known is None:
            expected = self.cursor.expected() if self.cursor is not None else None
            known = self.cursor is None or (isinstance(expected, e.Patched) and expected.name == name)
            self._patches[name] = known
            if known:
                self.ask(c.Patch(name=name))
        return known

    # -- asked by the loop ---------------------------------------------------------------------------------------------

    def timer_set(self, timer: Timer, /) -> None:
        """A timer of asyncio: `asyncio.sleep` is a durable sleep; other timers are derived again on replay."""
        until = later(self.at, timer.when_at - self.loop.now)
        if timer.kind == "sleep":
            key = self.take_key("sleep")
            memo = self.memo(key)
            if memo is not None and isinstance(memo.settled, e.TimerFired):
                self.loop.fire(timer)
                return
            until = self.sleep_until(c.StartTimer(key=key, until=until), None)
        else:
            key = self.take_key("timeout")
        self._timer_keys[timer.number] = key
        self.timers.set(key, until, timer)

    def timer_cancelled(self, timer: Timer, /) -> None:
        """asyncio cancelled a timer."""
        key = self._timer_keys.pop(timer.number)
        self.timers.drop(key)
        if timer.kind == "sleep":
            self.ask(c.EndWait(key=key))

    def call_step(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Awaitable[Any] | None:
        """`asyncio.to_thread(step, …)`."""
        durable = getattr(type(function), "durable_call", None)  # not of the function: a mock has every attribute
        return None if durable is None else cast("Awaitable[Any]", durable(function, self, args, kwargs))
