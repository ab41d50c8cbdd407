"""Tokens in a file: hashed, whole at any time, seen again when they change."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import Conflict, InvalidConfig, InvalidInput
from holdfast.web.login_sessions import CODE, SESSION, Codes, Sessions
from holdfast.web.server import check_reach, parse_address
from holdfast.web.tokens import TokenFile, find_token, new_token


def test_a_token_is_kept_hashed(tmp_path: Path) -> None:
    """Promise: the file does not hold the secret, and only its owner reads it."""
    file = TokenFile(tmp_path / "tokens.json")
    made, secret = file.add("ann", "operate")
    text = file.path.read_text()
    assert secret not in text
    assert secret.removeprefix("hf_") not in text
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert find_token(file.tokens(), secret) == made
    assert find_token(file.tokens(), secret + "x") is None
    assert find_token(file.tokens(), made.digest) is None
    assert find_token(file.tokens(), "") is None


def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    """Promise: another process adds and revokes, and this one knows at the next request."""
    here, there = TokenFile(tmp_path / "t.json"), TokenFile(tmp_path / "t.json")
    assert list(here.tokens()) == []
    made, secret = there.add("ann", "read")
    assert find_token(here.tokens(), secret) == made
    with pytest.raises(Conflict):
        there.add("ann", "admin")
    there.revoke("ann")
    assert find_token(here.tokens(), secret) is None
    with pytest.raises(InvalidInput):
        there.revoke("ann")


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id": "x"}]', "\xff"])
def test_a_file_that_cannot_be_read_opens_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    file = TokenFile(path)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        file.tokens()
    assert list(file.tokens()) == []
    with pytest.raises(InvalidConfig):
        file.add("ann", "read")


def test_sessions_and_codes_expire() -> None:
    """Promise: by the clock, to the second."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    token, _ = new_token("ann", "read")
    sessions, codes = Sessions(clock=lambda: now[0]), Codes(clock=lambda: now[0])
    cookie, _ = sessions.open(token)
    code = codes.new(token)
    now[0] += CODE
    assert codes.take(code) is None
    now[0] += SESSION - CODE - timedelta(seconds=1)
    assert sessions.find(cookie, [token]) is not None
    assert sessions.find(cookie, []) is None
    now[0] += timedelta(seconds=1)
    assert sessions.find(cookie, [token]) is None
    assert Sessions(clock=lambda: now[0]).find(cookie, [token]) is None


def test_a_secret_lets_sessions_outlive_the_process() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    token, _ = new_token("ann", "read")
    cookie, _ = Sessions("s", clock=lambda: now).open(token)
    assert Sessions("s", clock=lambda: now).find(cookie, [token]) is not None
    assert Sessions("t", clock=lambda: now).find(cookie, [token]) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "shop.example"])  # noqa: S104 refused
def test_an_address_that_others_reach_needs_a_token(tmp_path: Path, host: str) -> None:
    """Promise: it refuses to start, and says what to do."""
    file = TokenFile(tmp_path / "t.json")
    with pytest.raises(InvalidConfig, match="holdfast tokens add"):
        check_reach(host, file)
    for near in ("127.0.0.1", "::1", "localhost", "127.0.0.9"):
        check_reach(near, file)
    file.add("ann", "read")
    check_reach(host, file)


def test_addresses() -> None:
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("8080") == ("127.0.0.1", 8080)
    assert parse_address("[::1]:0") == ("::1", 0)
    for odd in ("x", "1.2.3.4:", "h:99999", ""):
        with pytest.raises(InvalidInput):
            parse_address(odd)
