"""Outcomes of bodies whose own writes wait, in an open transaction, for the turn that joins them.

The body of a step with `tx=True` ends with its transaction open. Its outcome is held until a turn takes it in, one at a
time, and that turn is committed in the transaction instead of the committer's: the author's writes and the journal's
row are there together, or neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import events as e
from holdfast.engine import telling
from holdfast.engine.bodies import Body, Broke, Succeeded, classify
from holdfast.ports.journal import Commit, Committed, Fenced, Unread
from holdfast.ports.transactions import OpenTransaction, RolledBack, Settlement

if TYPE_CHECKING:
    from holdfast.engine.session import Session


class Held(msgspec.Struct, frozen=True):
    """A body that has returned, and its open transaction."""

    body: Body
    outcome: Succeeded
    transaction: OpenTransaction

    @property
    def key(self) -> str:
        """Of its step."""
        return self.body.attempt.command.key

    @property
    def event(self) -> e.StepCompleted:
        """What the journal will say of it."""
        return e.StepCompleted(key=self.key, value=msgspec.Raw(self.outcome.value))


class Settling:
    """The held outcomes of one session, and the one that a turn has taken in."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.held: dict[str, Held] = {}  # by key: those that no turn has taken in yet
        self._taken: Held | None = None
        self._is_sent = False
        self._broken: tuple[Body, Broke] | None = None

    def __bool__(self) -> bool:
        return bool(self.held)

    @property
    def keys(self) -> tuple[str, ...]:
        """Of steps whose outcome no turn has taken in yet."""
        return tuple(self.held)

    def hold(self, held: Held) -> None:
        """Keeps an outcome for the next turn."""
        self.held[held.key] = held

    def take(self) -> list[e.AnyEvent]:
        """The outcome that goes into this turn, if there is one: it is committed in that transaction."""
        if not self.held:
            return []
        self._taken = self.held.pop(next(iter(self.held)))
        return [self._taken.event]

    def sends(self, commit: Commit) -> bool:
        """Commits the turn in the transaction of the outcome it took in; False if it took in none."""
        if self._taken is None:
            return False
        self._is_sent = True
        self._session.engine.settle(_settle(self._taken.transaction, commit, self._session))
        return True

    def settled(self, verdict: Settlement) -> None:
        """The store's word on the turn. What was held is told, held again, or has failed."""
        held, self._taken, self._is_sent = self._taken, None, False
        if held is None:
            return
        body = held.body
        match verdict:
            case Committed():
                telling.step_ended(self._session, held.key, body.attempt.number, held.outcome)
            case Unread():
                self.hold(held)
            case RolledBack():
                broke = redacted(self._session, classify(verdict.error, body.attempt.command.spec.raises))
                telling.step_ended(self._session, held.key, body.attempt.number, broke)
                self._broken = (body, broke)
            case Fenced():
                pass

    def without(self, events: Sequence[e.AnyEvent]) -> list[e.AnyEvent]:
        """Those of a refused turn, but for the outcome that was to be committed with it."""
        others = set(self.held)
        if self._broken is not None:
            others.add(self._broken[0].attempt.command.key)
        return [x for x in events if not (isinstance(x, e.StepCompleted) and x.key in others)]

    def take_broken(self) -> tuple[Body, Broke] | None:
        """The body whose transaction could not be committed: its attempt has failed."""
        broken, self._broken = self._broken, None
        return broken

    def give_up(self, key: str) -> bool:
        """Undoes what the body of that step wrote, if its outcome is still held."""
        held = self.held.pop(key, None)
        if held is not None:
            held.transaction.give_up()
        return held is not None

    def give_up_held(self) -> None:
        """Undoes all that no turn has taken in."""
        for key in self.keys:
            self.give_up(key)

    def give_up_all(self) -> None:
        """And what a turn has taken in, unless it is being committed: that ends by itself."""
        self.give_up_held()
        if self._taken is not None and not self._is_sent:
            self._taken.transaction.give_up()
            self._taken = None


async def _settle(transaction: OpenTransaction, commit: Commit, session: Session) -> None:
    """Commits the turn in the transaction that holds what its step wrote; the session hears the verdict."""
    try:
        verdict = await transaction.commit(commit)
    except Exception as error:  # noqa: BLE001 whoever opens the run next reads in the journal what became of it
        session.drop(f"what became of its transaction is not known: {error}", event="abandoned")
        session.engine.doubt()
    else:
        session.answered(verdict)


def give_back(outcome: object) -> None:
    """Nobody wants this outcome any more: what its body wrote is undone."""
    if isinstance(outcome, Succeeded) and outcome.transaction is not None:
        with suppress(Exception):
            outcome.transaction.give_up()


def redacted(session: Session, broke: Broke) -> Broke:
    """The failure without what the run keeps secret."""
    redaction = session.program.redaction
    return msgspec.structs.replace(broke, failure=redaction.failure(broke.failure)) if redaction else broke
