"""The connection that blocking code passes on to the loop of another thread."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput


def blocking_connection(given: Any) -> Any:
    """The connection; of Django's, which stands for another one in each thread, the one of this thread. Raises
    `InvalidInput` for one that belongs to an event loop."""
    is_awaited = hasattr(given, "__aenter__") and not hasattr(given, "__enter__")
    if is_awaited or type(given).__module__.startswith("asyncpg."):
        raise InvalidInput(
            f"connection= is a {type(given).__qualname__}, which belongs to an event loop of yours. In blocking code "
            "give a psycopg.Connection, a SQLAlchemy Connection or Session, Django's connection, or that of "
            "`with app.connection()`."
        )
    if type(given).__module__ == "django.utils.connection":
        return given._connections[given._alias]
    return given
