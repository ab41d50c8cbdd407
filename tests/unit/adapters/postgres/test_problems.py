"""What PostgreSQL's errors are said to mean."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as pg

from holdfast.adapters.postgres.problems import translated
from holdfast.errors import StoreContended, StoreUnavailable


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("the connection is lost"),
        pg.AdminShutdown("terminating"),
        psycopg.InterfaceError("bad"),
    ],
    ids=["lost", "shutdown", "interface"],
)
def test_a_lost_answer_is_not_called_a_failure(error: psycopg.Error) -> None:
    """Promise: nothing is claimed about a statement whose answer did not come."""
    problem = translated(error)
    assert type(problem) is StoreUnavailable
    assert "may or may not have done" in str(problem)
    assert "did not carry out" not in str(problem)


def test_a_refusal_says_that_nothing_was_done() -> None:
    """Promise: the server answered, and did not do it."""
    assert "did not carry out" in str(translated(pg.TooManyConnections("too many")))
    assert type(translated(pg.DeadlockDetected("deadlock"))) is StoreContended
