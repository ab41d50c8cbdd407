"""A session of SQLAlchemy on a connection that the store has lent.

An engine of its own connects to the loan of the calling body and ends nothing: the store commits. It is made once for
each kind of connection, since its first connection asks the server what it is. SQLAlchemy is never imported here: a
caller that names one of its classes has imported it already.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NoReturn

from holdfast.errors import NotAllowedHere

_BLOCKING = ("sqlalchemy.orm.session", "Session")
_ASYNC = ("sqlalchemy.ext.asyncio.session", "AsyncSession")

_REFUSED = ("commit", "rollback", "close", "reset", "invalidate", "prepare")

_loan: ContextVar[Any] = ContextVar("holdfast_loan")


class Engines:
    """The engines of one store."""

    def __init__(self) -> None:
        self._blocking: Any = None
        self._asynchronous: Any = None

    def session(self, kind: type[Any], loan: Any, *, is_async: bool) -> LentSession:
        """A session of that class on the loan. Raises `NotAllowedHere` if the step is of the other kind."""
        if _is_async(kind) is not is_async:
            step, wanted = ("an `async def`", "AsyncSession") if is_async else ("a `def`", "Session")
            raise NotAllowedHere(f"transaction({kind.__qualname__}) in {step} step: ask for transaction({wanted})")
        if is_async:
            self._asynchronous = self._asynchronous or _async_engine()
            base: Any = getattr(kind, "sync_session_class", import_module("sqlalchemy.orm").Session)
            given = kind(bind=self._asynchronous, sync_session_class=_refusing(base))
            return LentSession(given, given.sync_session, base, loan)
        self._blocking = self._blocking or _blocking_engine()
        given = _refusing(kind)(bind=self._blocking)
        return LentSession(given, given, kind, loan)


def is_session(kind: type[Any]) -> bool:
    """Whether it is a class of SQLAlchemy's sessions, or derived from one."""
    return any((base.__module__, base.__name__) in (_BLOCKING, _ASYNC) for base in kind.__mro__)


def _is_async(kind: type[Any]) -> bool:
    return any((base.__module__, base.__name__) == _ASYNC for base in kind.__mro__)


class LentSession:
    """A session that was lent."""

    def __init__(self, given: Any, session: Any, base: Any, loan: Any) -> None:
        self.given: Any = given
        self._session = session
        self._base = base  # its class, without what is refused
        self._loan = loan
        self._was_rolled_back = False
        import_module("sqlalchemy.event").listen(session, "after_soft_rollback", self._note)
        _loan.set(loan)

    def finish(self) -> Awaitable[None] | None:
        """Writes what was not written yet. In the thread of the body, or awaited on its loop."""
        _loan.set(self._loan)
        if self.given is self._session:
            self.given.flush()
            self._check()
            return None
        return self._finish()

    async def _finish(self) -> None:
        await self.given.flush()
        self._check()

    def close(self) -> None:
        """Drops what it holds, and leaves the connection. From any thread: nothing is sent."""
        with suppress(Exception):  # a thread whose time is up may still be using it
            self._base.close(self._session)

    def _note(self, session: Any, ended: Any) -> None:
        """Savepoints may be rolled back. Of a whole transaction the server would keep what the session has dropped."""
        while ended.parent is not None and not ended.nested:  # a flush that failed ends what it is in
            ended = ended.parent
        if not ended.nested:
            self._was_rolled_back = True

    def _check(self) -> None:
        if self._was_rolled_back:
            raise NotAllowedHere(
                "the session was rolled back in the body of its step, so a part of what it wrote is missing. Nothing "
                "was kept. Put what may fail into a savepoint: `with session.begin_nested():`."
            )


def _refusing(kind: type[Any]) -> type[Any]:
    """The class without what would end the transaction."""

    def begin(self: Any, nested: bool = False) -> Any:
        return kind.begin(self, nested=True) if nested else _refuse("begin()")

    refused = {name: _refusal(f"{name}()") for name in _REFUSED}
    return type(kind.__name__, (kind,), {**refused, "begin": begin, "__module__": kind.__module__})


def _refusal(what: str) -> Any:
    def refuse(self: Any) -> None:
        _refuse(what)

    return refuse


def _refuse(what: str) -> NoReturn:
    raise NotAllowedHere(
        f"{what} on a session of Holdfast: it commits when its step ends, together with the journal, and rolls back if "
        "that raises. Use `session.begin_nested()`: a savepoint."
    )


def _blocking_engine() -> Any:
    alchemy = import_module("sqlalchemy")
    engine = alchemy.create_engine("postgresql+psycopg://", creator=_loan.get, poolclass=alchemy.NullPool)
    return _harmless(engine, engine)


def _async_engine() -> Any:
    alchemy = import_module("sqlalchemy")

    async def connect() -> Any:
        return _loan.get()

    made = import_module("sqlalchemy.ext.asyncio").create_async_engine(
        "postgresql+psycopg://", async_creator=connect, poolclass=alchemy.NullPool
    )
    return _harmless(made, made.sync_engine)


def _harmless(engine: Any, sync_engine: Any) -> Any:
    """The engine, which neither commits nor rolls back nor closes what it connects to."""
    dialect = sync_engine.dialect
    for name in ("do_commit", "do_rollback", "do_close", "do_terminate"):
        setattr(dialect, name, _leave_alone)
    return engine


def _leave_alone(connection: Any) -> None:
    """The store ends the transaction, and closes the connection."""
