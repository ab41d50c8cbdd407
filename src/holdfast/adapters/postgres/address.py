"""The address of a PostgreSQL store: what libpq is told, which schema is meant, and what may be shown to people."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.config.addresses import options_in, without_secrets
from holdfast.errors import InvalidInput

DEFAULT_SCHEMA = "holdfast"
_LONGEST_NAME = 63
_PLACES = ("host", "hostaddr", "port")
_YES_OR_NO = {"on": True, "off": False}

# A half-open connection is noticed within half of the default lease: by unanswered data, or by probes when idle.
_TCP = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6000,
    "application_name": "holdfast",
}
# Of several servers some may be silent, and a caller waiting for a connection has time for two of them.
_OF_SEVERAL = {"target_session_attrs": "read-write", "connect_timeout": 3}


class Address(msgspec.Struct, frozen=True):
    """The address of a store. `repr` shows no secrets."""

    url: str
    schema: str
    connecting: dict[str, Any]
    has_notices: bool = True

    def __repr__(self) -> str:
        return f"<Address {self.url}>"

    @property
    def servers(self) -> list[dict[str, Any]]:
        """What libpq needs to reach each server, in their order."""
        given = {name: str(self.connecting[name]).split(",") for name in _PLACES if name in self.connecting}
        return [
            {**self.connecting, **{name: each[number if len(each) > 1 else 0] for name, each in given.items()}}
            for number in range(max(map(len, given.values()), default=1))
        ]

    @property
    def quoted(self) -> str:
        """The schema as a quoted identifier."""
        return '"' + self.schema.replace('"', '""').replace("%", "%%") + '"'


def parse_address(text: str) -> Address:
    """Parses a URL of libpq; `schema=` and `notices=on|off` among its options are ours."""
    base, _, query = text.partition("?")
    scheme, separator, rest = base.partition("://")
    if scheme not in {"postgresql", "postgres"} or not separator:
        raise InvalidInput(
            f"{without_secrets(base)!r} is not the address of a PostgreSQL store. Use postgresql://user@host/database."
        )
    options = dict(options_in(query))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    notices = options.pop("notices", "on")
    if not schema or "\0" in schema or len(schema.encode()) > _LONGEST_NAME or schema.startswith("pg_"):
        raise InvalidInput(
            f"schema={schema!r}: use a name of at most {_LONGEST_NAME} bytes that does not begin with 'pg_'."
        )
    if notices not in _YES_OR_NO:
        raise InvalidInput(f"notices={notices!r}: use 'on' (the default), or 'off' where LISTEN is not possible.")
    url = f"postgresql://{rest}" + (f"?{urlencode(options, quote_via=quote)}" if options else "")
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidInput(
            f"{without_secrets(base)!r} is not an address that PostgreSQL understands: {_reason(error)}"
        ) from None
    numbers = {str(given[name]).count(",") + 1 for name in _PLACES if name in given} - {1}
    if len(numbers) > 1:
        raise InvalidInput(f"{without_secrets(base)!r}: give each server a port, or one port for all of them.")
    connecting = {**_TCP, **(_OF_SEVERAL if numbers else {}), **given}
    connecting["client_encoding"] = "utf8"  # as values are sent, whatever else the role prefers
    return Address(without_secrets(text), schema, connecting, _YES_OR_NO[notices])


def _reason(error: Exception) -> str:
    """What libpq found wrong, if that can be said without repeating the address."""
    text = str(error).strip()
    return "check its parts" if "://" in text or "@" in text else text
