"""Calls a SQL function that may raise HF001 to ask for what only the client can encode, then retries with it.

A waiting run reads the end of another run as an event, and only the core encodes events. Most turns need none, so none
is sent along: a function that needs one refuses, says which, and is called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import psycopg

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.link import Values
from holdfast.adapters.sql.rows import status_of
from holdfast.core.turn import Row
from holdfast.errors import StoreError
from holdfast.ports.journal import Commit

NEEDS = "HF001"
"""The SQLSTATE by which a function asks for what it cannot encode itself."""


class Asks(Protocol):
    """A link or a connection."""

    def ask(self, statement: str, values: Values = ()) -> list[Any]:
        """All rows."""
        ...


class Asked(msgspec.Struct):
    """What the function asks for."""

    what: str
    run: str
    workflow: str


def ask_knowing(
    link: Asks, statement: str, values: Callable[[bool, str | None], Sequence[Any]], commits: Sequence[Commit]
) -> tuple[list[Any], bool]:
    """Returns the answer, and whether an earlier try may have been carried out. `values` builds the parameters from
    that and from what is known; `commits` are the turns whose ends may be asked for."""
    known = wire.Known()
    tries: list[bool] = []  # whether each was the second or later of its kind

    def chosen(is_again: bool) -> Sequence[Any]:
        tries.append(is_again)
        return values(any(tries), known.as_json())

    while True:
        try:
            return link.ask(statement, chosen), any(tries)
        except StoreError as error:
            if not _learn(link, error.__cause__, known, commits):
                raise


def _learn(link: Asks, problem: BaseException | None, known: wire.Known, commits: Sequence[Commit]) -> bool:
    """Finds what the server asked for. An end never changes, so it is still right when it is sent."""
    if not isinstance(problem, psycopg.Error) or problem.sqlstate != NEEDS:
        return False
    asked = msgspec.json.decode(problem.diag.message_detail or "", type=Asked)
    known.add_ends(commits)
    if asked.what == "own end":
        return True
    ((*columns, workflow, status),) = link.ask(sql.LAST_TURN, (asked.run,))
    if asked.what == "conflict":
        known.add_conflict(asked.run, workflow, asked.workflow)
    elif status_of(status).is_terminal:  # else it ends with this very batch
        known.add_end(Row(asked.run, *columns))
    return True
