"""Arguments in pieces: together they are the arguments, and what two calls share at the beginning is the same."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.pieces import SMALLEST, cut

texts = st.builds(lambda word, times: word * times, st.text(max_size=5), st.integers(0, 30_000))
values = st.recursive(
    st.none() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)
)


def encoded(arguments: dict[str, Any]) -> bytes:
    return msgspec.json.encode(arguments)


def pieces(arguments: dict[str, Any]) -> list[bytes]:
    return list(cut(encoded(arguments)))


@given(st.dictionaries(st.text(), values, max_size=4))
def test_pieces_are_the_arguments(arguments: dict[str, Any]) -> None:
    """Promise: whatever the names and values are, nothing is lost, and no piece is empty."""
    found = pieces(arguments)
    assert b"".join(found) == encoded(arguments)
    assert all(found)


@given(st.integers(1, 400), st.integers(0, 20), st.integers(0, 10**12))
def test_a_list_that_grows_shares_its_beginning(length: int, more: int, other: int) -> None:
    """Promise: all pieces but the last of a list are those of the longer list, also when arguments around it change."""
    said = [f"{number}: {'said ' * 400}" for number in range(length + more)]
    shorter = pieces({"turn": 1, "said": said[:length], "kind": "first"})
    longer = pieces({"turn": other, "said": said, "kind": "another"})
    assert set(shorter[1:-1]) <= set(longer)


def test_a_large_text_has_few_pieces_and_a_small_end() -> None:
    """Promise: pieces grow with the text, so their number grows slowly, and no piece is more than a sixteenth of what
    is before it."""
    size = 64 * 1024 * 1024
    found = pieces({"text": "x" * size})
    assert len(found) < 250
    before = 0
    for piece in found[1:]:
        assert len(piece) <= max(SMALLEST, before // 16)
        before += len(piece)


def test_small_values_are_not_cut_apart() -> None:
    assert len(pieces({str(number): "x" * 100 for number in range(1000)})) == 1
