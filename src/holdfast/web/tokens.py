"""Bearer tokens: a name, a role and a hash. Tokens are random and long, so one round of SHA-256 hides them.

They are kept in a file that only its owner can read, and that is replaced atomically. A server reads the file again
when it changes: a revoked token is refused at once, and its streams end.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.ids import check_name
from holdfast.errors import Conflict, InvalidConfig, InvalidInput

Role: TypeAlias = Literal["read", "operate", "admin"]
ROLES: tuple[Role, ...] = ("read", "operate", "admin")
"""Roles in order; each includes the permissions of those before it."""

MARK = "hf_"
"""The prefix of a token, by which people and scanners recognise one."""


def allows(role: Role, needed: Role) -> bool:
    """Whether a role suffices."""
    return ROLES.index(role) >= ROLES.index(needed)


def check_role(text: str) -> Role:
    """A role by its name."""
    for role in ROLES:
        if text == role:
            return role
    raise InvalidInput(f"role {text!r}: it is one of {', '.join(ROLES)}")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A stored token. `id` is public: it names the token in sessions and lists."""

    id: str
    name: str
    role: Role
    digest: str
    created_at: datetime


def new_token(name: str, role: Role, now: datetime | None = None) -> tuple[Token, str]:
    """A token, and its secret text, which is not stored."""
    secret = MARK + secrets.token_urlsafe(32)
    made = Token(
        id=secrets.token_hex(6),
        name=check_name(name, "the name of a token"),
        role=check_role(role),
        digest=digest_of(secret),
        created_at=now or datetime.now(UTC),
    )
    return made, secret


def digest_of(secret: str) -> str:
    """The stored hash of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens(Protocol):
    """The tokens of a server."""

    def tokens(self) -> Iterable[Token]:
        """The valid tokens."""
        ...


def find_token(known: Iterable[Token], secret: str) -> Token | None:
    """The token of a secret. All are compared, in constant time."""
    digest = digest_of(secret)
    found = None
    for token in known:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


class GivenTokens:
    """Tokens of this process only."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = {token.id: token for token in tokens}

    def tokens(self) -> Iterable[Token]:
        return tuple(self._tokens.values())

    def add(self, token: Token) -> None:
        self._tokens[token.id] = token

    def revoke(self, id: str) -> None:
        self._tokens.pop(id, None)


class JoinedTokens:
    """Several sources of tokens as one."""

    def __init__(self, *sources: Tokens) -> None:
        self._sources = sources

    def tokens(self) -> Iterable[Token]:
        return tuple(token for source in self._sources for token in source.tokens())


class TokenFile:
    """Tokens in a file. A missing file has none; an unreadable one has none either, and is reported."""

    def __init__(self, path: Path | str) -> None:
        self.path: Path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        self._known: tuple[Token, ...] = ()

    def tokens(self) -> Iterable[Token]:
        """The tokens in the file now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, ()
            return ()
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._stamp, self._known = stamp, ()
            self._known = self._read()
        return self._known

    def add(self, name: str, role: Role) -> tuple[Token, str]:
        """Creates a token. Raises `Conflict` if the name is in use."""
        with self._writing():
            known = self._read()
            if any(token.name == name for token in known):
                raise Conflict(f"there is a token {name!r} already: revoke it first, or choose another name")
            made, secret = new_token(name, role)
            self._write([*known, made])
        return made, secret

    def revoke(self, name: str) -> Token:
        """Revokes the token of that name or id."""
        with self._writing():
            known = self._read()
            gone = [token for token in known if name in (token.name, token.id)]
            if not gone:
                raise InvalidInput(f"no token {name!r} in {self.path}; `holdfast tokens list` shows them")
            self._write([token for token in known if token not in gone])
        return gone[0]

    def _read(self) -> tuple[Token, ...]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=tuple[Token, ...])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"the file of tokens {self.path} cannot be read: {error}") from error

    def _write(self, tokens: list[Token]) -> None:
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Locks the file against other writers, in any process."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f".{self.path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
