"""Canonical JSON and hashes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given

from holdfast.core import codec
from holdfast.core.payload import Shape, canonical, hash_of
from holdfast.errors import NotDecodable
from tests.unit.core.values import (
    plain,
)


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


def test_a_hash_is_the_sha256_of_the_bytes() -> None:
    assert hash_of(b"") == hashlib.sha256(b"").hexdigest()
    assert hash_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_canonical_json_sorts_keys_and_drops_blanks() -> None:
    assert canonical(b'{"b": [1, {"d": 1, "c": 2}], "a": 1.0}') == b'{"a":1.0,"b":[1,{"c":2,"d":1}]}'
    assert canonical(b"[2, 1]") == b"[2,1]"


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b'"\xff"'])
def test_canonical_refuses_what_is_not_json(data: bytes) -> None:
    with pytest.raises(NotDecodable, match=r"^the data is not JSON: "):
        canonical(data)


def test_canonical_is_bounded_in_depth_arguments_included() -> None:
    assert canonical(b"[" * 65 + b"]" * 65) == b"[" * 65 + b"]" * 65
    with pytest.raises(NotDecodable, match=r"^the data is nested more than 64 levels deep\.$"):
        canonical(b"[" * 66 + b"]" * 66)


@given(plain)
def test_equal_values_have_equal_canonical_bytes(value: Any) -> None:
    data = Shape[Any](Any, what="x").encode(value)
    assert json.loads(canonical(data)) == value
    assert canonical(canonical(data)) == canonical(data)
