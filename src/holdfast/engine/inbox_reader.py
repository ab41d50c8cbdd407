"""Reads inboxes: every message is checked before it becomes an event.

Numbers of messages have no gaps, and each has a checksum. A message that is missing, wrongly counted as read, or
changed is not skipped, and nothing after it is read: its run is paused until an operator restores the store or drops
the message (`client.messages`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core import events as e
from holdfast.core.checksums import message_checksum
from holdfast.core.messages import decode_event
from holdfast.engine.home import EngineHome
from holdfast.engine.session import Session
from holdfast.errors import CorruptJournal, HoldfastError
from holdfast.ports.facts import MessageDamaged, Trouble
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.telemetry import Telemetry


def checked(run: str, message: Unconsumed) -> e.AnyEvent:
    """The event of a message. Raises `CorruptJournal` if it is not what was sent. Old messages have no checksum."""
    written = message.checksum
    if written and written != message_checksum(run, message.id, message.kind, message.body):
        raise CorruptJournal("a message in the inbox was changed or damaged: its checksum does not match")
    return decode_event(message.body)


def opened(
    telemetry: Telemetry, run: str, messages: Sequence[Unconsumed], seen: int, last: int | None = None
) -> tuple[list[e.AnyEvent], int]:
    """The events of the messages after number `seen`, up to `last` if that is known, and the number they reach. It
    stops at the first damaged message, in whose place it returns a pause of the run."""
    events: list[e.AnyEvent] = []
    if last is not None and seen > last:
        why = f"its row says that messages up to {seen} were read, and that only {last} were sent"
        return [_pause(telemetry, run, last, why)], seen
    for message in messages:
        number = message.no
        if number > seen + 1:
            break
        if number <= seen:
            why = f"message {number} in its inbox is unread, and its row says that messages up to {seen} were read"
            return [*events, _pause(telemetry, run, number, why)], seen
        try:
            event = checked(run, message)
            if message.kind != "refused":
                events.append(event)
        except CorruptJournal as error:
            return [*events, _pause(telemetry, run, number, _about(number, error))], seen
        seen = number
    if seen < max(last or 0, messages[-1].no if messages else 0):
        return [*events, _pause(telemetry, run, seen + 1, f"message {seen + 1} in its inbox is missing")], seen
    return events, seen


def _about(number: int, error: CorruptJournal) -> str:
    return str(error).replace("a message in the inbox", f"message {number} in its inbox", 1)


def _pause(telemetry: Telemetry, run: str, number: int, why: str) -> e.Paused:
    telemetry.tell(MessageDamaged(run, why))
    advice = (
        "Restore the store from a backup; or drop this message, which loses it, and let the run continue: "
        f"`holdfast messages drop {run} {number}`, then `holdfast resume {run}`."
    )
    return e.Paused(reason="undecodable", detail=f"{why}. {advice}")


class News:
    """Reads the inboxes of sessions; those that ask at the same moment share one read."""

    def __init__(self, engine: EngineHome) -> None:
        self._engine = engine
        self._wanted: dict[str, None] = {}  # in the order of asking, whatever the hashes
        self._task: asyncio.Task[None] | None = None

    def fetch(self, session: Session) -> None:
        """Reads the inbox of a session."""
        self._wanted[session.run.id] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        engine = self._engine
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                sessions = {s.no: s for name in wanted if (s := engine.sessions.get(name)) is not None}
                if not sessions:
                    continue
                inbox = await engine.store.unread({no: s.inbox_seen for no, s in sessions.items()})
                for no, messages in inbox.items():
                    await self._hand_over(sessions[no], messages)
        except HoldfastError as error:
            engine.telemetry.tell(Trouble("inbox not read, the next poll tries again", error))
        finally:
            self._task = None

    async def _hand_over(self, session: Session, messages: Sequence[Unconsumed]) -> None:
        seen = session.inbox_seen
        fresh = [message for message in messages if message.no > seen]
        if not fresh or self._engine.sessions.get(session.run.id) is not session:
            return
        events, reached = opened(self._engine.telemetry, session.run.id, fresh, seen)
        try:
            events = await self._engine.asking.with_payloads(events)
            events = await self._engine.asking.unopposed(session.no, session.epoch, session.program, events)
        except HoldfastError as error:  # the other runs still get theirs
            what, run = "a message to it cannot be read", session.run.id
            self._engine.telemetry.tell(Trouble(what, error, run=run, is_bug=True))
            return
        session.messages(events, reached, seen)
