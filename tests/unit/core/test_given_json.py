"""JSON that is given from outside is read strictly."""

from __future__ import annotations

import pytest

from holdfast.core.given_json import given_json
from holdfast.errors import InvalidInput


@pytest.mark.parametrize("text", ["1", '"a"', '{"a": {"b": [1, {"c": null}]}}', '[{"a": 1}, {"a": 1}]', "1" * 300])
def test_what_is_well_formed_is_read(text: str) -> None:
    given_json(text.encode(), "it")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "key 'a' twice"),
        ('[{"x": {"b": 1, "c": 2, "b": 1}}]', "key 'b' twice"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
        ("NaN", "not JSON"),
        ("", "not JSON"),
        ("{", "not JSON"),
    ],
)
def test_what_would_lose_something_is_refused(text: str, said: str) -> None:
    """Promise: a typed error that names the place, and never a RecursionError."""
    with pytest.raises(InvalidInput, match=said):
        given_json(text.encode(), "the value")


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not JSON"):
        given_json(b'"\xff"', "the value")
