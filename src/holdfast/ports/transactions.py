"""Transactions shared with the store: a user's writes and the store's are committed together, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeAlias

import msgspec

from holdfast.ports.inbox import Delivery, Message
from holdfast.ports.journal import Commit, Verdict
from holdfast.ports.runs import Creation, NewRun


class RolledBack(msgspec.Struct, frozen=True, gc=False):
    """The transaction did not commit, and never will: nothing of it was kept, except what the borrower committed with
    its own statement, where the database allows that. `error` says why."""

    error: Exception


Settlement: TypeAlias = Verdict | RolledBack


class OpenTransaction(Protocol):
    """A write transaction of the store's database, lent to a user for writes to their own tables."""

    @property
    def connection(self) -> Any:
        """The borrower's connection, of the store's driver. It does not commit or roll back. A borrower that does so
        with its own statement has ended the loan; `commit` then raises `NotAllowedHere`."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it can still be committed or rolled back."""
        ...

    def session(self, kind: type[Any]) -> Any:
        """A session of that class on the connection, such as SQLAlchemy's, the same for each call; None for a class
        that is no session. Raises `NotAllowedHere`, with the reason, for one that cannot be on this connection. It ends
        with the transaction: what would end it is refused to the borrower."""
        ...

    def finish(self) -> Awaitable[None] | None:
        """Writes what a session holds back. Called after the borrower's code, in its thread; what is returned is
        awaited on its loop. An error of the database is raised, and the transaction is to be rolled back then."""
        ...

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """Commits what the borrower wrote and, with it, the turn.

        The turn is applied like `Journal.commit` does, fenced by epoch and ordinal, and everything becomes durable in
        one transaction: `Committed`. `Fenced`: everything was rolled back. `Unread`: nothing was written, and the
        transaction is still open. `RolledBack`: it could not be committed (a constraint, a lost connection, no room),
        and nothing of it is there. An unknown outcome never leaves here: a lost answer is resolved by looking, under
        the run's lock, whether the turn is stored, for as long as it takes. Without a turn the answer is `Committed`
        with no numbers, and a lost answer is the driver's error in `RolledBack`.

        The caller may give up waiting; what was begun is finished.
        """
        ...

    async def roll_back(self) -> None:
        """Rolls everything back. Does nothing if the transaction is over."""
        ...

    def give_up(self) -> None:
        """Like `roll_back`, without waiting. From any thread, and repeatedly."""
        ...

    def interrupt(self) -> None:
        """Asks the server to stop a running statement. From any thread; returns at once, and is a hint."""
        ...


class Transactions(Protocol):
    """What a store with its own database offers. Others refuse, with the reason."""

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing else can write while a transaction of `transact` is open."""
        ...

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """Begins a transaction. `is_async`: which kind of connection the borrower wants, where the driver has two."""
        ...

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """Makes a run, like `Runs.create`, in the open transaction of the caller's connection: it exists if and when
        the caller commits. `connection` belongs to this database: it comes from `transact` or, where the driver allows
        it, is the caller's own. Anything else raises `InvalidInput` with the reason, and nothing is written. A refusal
        leaves the caller's transaction as it was. No run is woken before the caller's commit.
        """
        ...

    async def send_within(self, connection: object, message: Message) -> Delivery:
        """Sends a message, like `Inbox.send`, in the open transaction of the caller's connection, which is as for
        `create_within`: the run gets it if and when the caller commits."""
        ...

    async def sent_within(self, connection: object, run: str, id: str) -> Message | None:
        """What the run was sent under this id, like `Inbox.sent`, as the caller's open transaction sees it: also what
        that transaction sent itself."""
        ...

    def wake(self) -> None:
        """Tells workers to look for what callers wrote in transactions of their own, whose commit the store does not
        see. At any time, from any thread; returns at once."""
        ...


holding: ContextVar[OpenTransaction | None] = ContextVar("holdfast_transaction", default=None)
"""The transaction that the calling code has borrowed: an exclusive store refuses its other writes."""
