"""Ids: one rule at the edge, and derived ids that never collide."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import MAX_BYTES, check_id, check_name, child_id, idempotency_key
from holdfast.errors import InvalidId


def _is_id(text: str) -> bool:
    try:
        check_id(text)
    except InvalidId:
        return False
    return True


ids = st.text(min_size=1, max_size=255).filter(_is_id)


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "order-42",
        "../x",
        "a'b\"--",
        "%00",
        "a b",
        "A",
        "~",
        "e\u0301",
        "שלום",
        "😀",
        "a\u200bb",
        "a\u00a0b",
        "x" * 255,
        "é" * 127 + "x",
        "😀" * 63 + "abc",
    ],
)
def test_visible_text_of_up_to_255_bytes_is_kept_exactly(value: str) -> None:
    assert check_id(value) == value
    assert check_name(value) == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (5, "an id is a str, not int."),
        (None, "an id is a str, not NoneType."),
        (b"x", "an id is a str, not bytes."),
        ("", "'' is empty. Give 1 to 255 bytes of text."),
        (" ", "' ' has no visible character. Give it at least one."),
        ("\u200b\u3000", "'\\u200b\\u3000' has no visible character. Give it at least one."),
        (" a", "' a' begins or ends with a space. Strip it."),
        ("a ", "'a ' begins or ends with a space. Strip it."),
        ("a\u00a0", "'a\\xa0' begins or ends with a space. Strip it."),
        ("a\nb", "'a\\nb' holds the control character U+000A at position 1. Remove it."),
        ("\x00", "'\\x00' holds the control character U+0000 at position 0. Remove it."),
        ("ab\x1f", "holds the control character U+001F at position 2. Remove it."),
        ("a\x7f", "holds the control character U+007F at position 1. Remove it."),
        ("é\x9f", "holds the control character U+009F at position 1. Remove it."),
        ("a\u2028b", "holds the control character U+2028 at position 1. Remove it."),
        ("a\u2029b", "holds the control character U+2029 at position 1. Remove it."),
        ("\ud800", "'\\ud800' holds half of a surrogate pair, which is not text. Decode it properly first."),
        ("a\udfff", "holds half of a surrogate pair"),
        ("x" * 256, "has 256 bytes; at most 255 are allowed. Shorten it, or use a hash of it."),
        ("é" * 128, "has 256 bytes; at most 255 are allowed."),
        ("😀" * 64, "has 256 bytes; at most 255 are allowed."),
    ],
    ids=lambda value: ascii(value)[:40].replace("\\", "/"),
)
def test_anything_else_is_refused_with_what_is_wrong(value: Any, problem: str) -> None:
    with pytest.raises(InvalidId) as caught:
        check_id(value)
    assert str(caught.value).startswith("run id: ")
    assert problem in str(caught.value)
    with pytest.raises(InvalidId, match=r"^queue: "):
        check_name(value, "queue")
    with pytest.raises(InvalidId, match=r"^name: "):
        check_name(value)


def test_a_long_id_is_shown_shortened() -> None:
    with pytest.raises(InvalidId) as caught:
        check_id("x" * 10_000)
    assert str(caught.value).startswith(f"run id: '{'x' * 59}… has 10000 bytes")
    with pytest.raises(InvalidId) as caught:
        check_id("x" * 77 + "\n")
    assert str(caught.value).startswith("run id: '" + "x" * 59 + "… holds")
    with pytest.raises(InvalidId) as caught:
        check_id("x" * 76 + "\n")
    assert str(caught.value).startswith("run id: '" + "x" * 76 + "\\n' holds")


def test_a_str_enum_becomes_plain_text() -> None:
    class Name(str, enum.Enum):  # noqa: UP042 the older spelling, whose str() is another text
        A = "a"

    assert check_id(Name.A) == "a"
    assert type(check_id(Name.A)) is str


def test_case_twins_and_normal_forms_are_different_ids() -> None:
    assert check_id("a") != check_id("A")
    assert check_id("\u00e9") != check_id("e\u0301")


@given(st.text(max_size=300))
def test_what_is_accepted_is_short_visible_text(text: str) -> None:
    if _is_id(text):
        assert 1 <= len(text.encode()) <= MAX_BYTES
        assert text == text.strip()
        assert "\x00" not in text
        assert len(text.splitlines()) == 1


def test_a_child_id_is_readable_when_short() -> None:
    assert child_id("order-42", "ship") == "order-42/ship"
    assert child_id("order-42", "ship:1") == "order-42/ship:1"
    assert child_id("a", "b/c%") == "a/b%2Fc%25"


def test_a_long_child_id_keeps_its_beginning_and_ends_in_a_hash() -> None:
    parent = "p" * 250
    assert child_id(parent, "abcd") == f"{parent}/abcd"
    hashed = child_id(parent, "abcde")
    assert len(hashed) == 255
    # the beginning of: (250 times p, NUL, abcde) | sha256sum. Stored ids must not change.
    assert hashed == "p" * 222 + "~" + "e924f4bd1a97fd7096fa28adcb2b587f"
    assert child_id(parent, "abcdf") != hashed
    assert check_id(child_id("é" * 127, "schlüssel"))


@given(ids, ids)
def test_a_child_id_is_an_id_and_always_the_same(parent: str, key: str) -> None:
    made = child_id(parent, key)
    assert check_id(made) == made
    assert made == child_id(parent, key)
    assert made != parent


@given(st.lists(st.tuples(st.text("a/%", min_size=1, max_size=4), st.text("a/%", min_size=1, max_size=4)), max_size=30))
def test_two_pairs_never_share_a_child_id(pairs: list[tuple[str, str]]) -> None:
    assert len({child_id(*pair) for pair in pairs}) == len(set(pairs))


def test_an_idempotency_key_is_ascii_and_depends_on_run_and_step_alone() -> None:
    key = idempotency_key("order-42", "charge")
    assert key == idempotency_key("order-42", "charge")
    assert key == "aa036ed07d2d9454bd8eb00f9825a3b0"  # printf 'order-42\\0charge' | sha256sum: sent to others, forever
    assert idempotency_key("bestellung-é", "zahlung-😀").isascii()
    assert len({key, idempotency_key("order-42", "charge:1"), idempotency_key("order-4", "2charge")}) == 3
