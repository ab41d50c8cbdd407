"""Taking values out of payloads: what a path reaches, and which copies are found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.erasure import Erasure
from holdfast.core.failure import Failure
from holdfast.core.redacted import MARK
from holdfast.core.references import BlobRef


def started(value: Any) -> e.Started:
    return e.Started(workflow="w", value=msgspec.Raw(msgspec.json.encode(value)))


def erased(events: list[e.AnyEvent], *paths: str) -> tuple[list[Any], Erasure]:
    """The events without what is at the paths."""
    erasure = Erasure(paths)
    for event in events:
        erasure.learn_event(event, {})
    return [erasure.event(event, {}) for event in events], erasure


@pytest.mark.parametrize(
    ("value", "path", "left"),
    [
        ({"a": {"b": "text"}}, "input.a.b", {"a": {"b": MARK}}),
        ({"a": {"b": "text"}}, "input.a", {"a": MARK}),
        ({"a": {"b": "text"}}, "input", MARK),
        ({"a": [{"b": 1}, {"b": 2}]}, "input.a.1.b", {"a": [{"b": 1}, {"b": MARK}]}),
        ({"a": [{"b": 1}, {"b": 2}]}, "input.a.*.b", {"a": [{"b": MARK}, {"b": MARK}]}),
        ({"a.b": {"c": True}}, "input.a.b.c", {"a.b": {"c": MARK}}),
        ({"a": "text", "b": "a text"}, "input.a", {"a": MARK, "b": f"a {MARK}"}),
        ({"a": "abc", "b": "abc", "c": "abcd"}, "input.a", {"a": MARK, "b": MARK, "c": "abcd"}),
        ({"a": 7, "b": 7}, "input.a", {"a": MARK, "b": 7}),
        ({"a": 70123, "b": 70123, "c": "no. 70123"}, "input.a", {"a": MARK, "b": MARK, "c": f"no. {MARK}"}),
        ({"a": None, "b": None}, "input.a", {"a": MARK, "b": None}),
        ({"a": "text", "b": {"text": 1}}, "input.a", {"a": MARK, "b": {MARK: 1}}),
    ],
)
def test_what_a_path_takes_out(value: Any, path: str, left: Any) -> None:
    """Contract: the value at the path, and copies of texts and long numbers; keys of the value are no copies."""
    [event], erasure = erased([started(value)], path)
    assert msgspec.json.decode(event.value) == left
    assert (erasure.missing, list(erasure.places)) == ([], ["input"])


def test_a_path_that_ends_before_a_place_is_all_below_it() -> None:
    """Contract: `steps.pay` is its input, its result and its error, and no step whose name begins so."""
    steps: list[e.AnyEvent] = [
        e.StepScheduled(key="pay", value=msgspec.Raw(b'{"n":1}')),
        e.StepCompleted(key="pay", value=msgspec.Raw(b"true")),
        e.StepCompleted(key="pay:1", value=msgspec.Raw(b"true")),
        e.StepCompleted(key="payed", value=msgspec.Raw(b"true")),
    ]
    _, erasure = erased(steps, "steps.pay")
    assert list(erasure.places) == ["steps.pay.input", "steps.pay.result"]


def test_copies_in_errors_and_words_of_people_go() -> None:
    """Contract: message, traceback and data of an error, reasons, attributes; the type of the error stays."""
    failure = Failure(
        "ValueError", "no bob@x", "line\nValueError: no bob@x", declared=True, data=msgspec.Raw(b'["bob@x"]')
    )
    events: list[e.AnyEvent] = [
        started({"mail": "bob@x"}),
        e.StepFailed(key="s", failure=failure),
        e.CancelRequested(reason="for bob@x", actor="bob@x"),
        e.AttributesSet(attributes={"mail": "bob@x", "gone": None}),
    ]
    changed, erasure = erased(events, "input.mail")
    assert "bob@x" not in msgspec.json.encode(changed).decode()
    assert changed[1].failure.type == "ValueError"
    assert not changed[1].failure.declared
    assert {"steps.s.error", "attributes.mail"} < {*erasure.places}


def test_a_reference_goes_with_its_value() -> None:
    """Contract: an event refers to the blobs that its payload still names, and to no others."""
    refs = [BlobRef(letter * 64, 1, "bytes") for letter in "ab"]
    value = msgspec.Raw(msgspec.json.encode({"one": refs[0], "two": refs[1]}))
    event = e.StepCompleted(key="s", value=value, refs=("a" * 64, "b" * 64))
    [changed], _ = erased([event], "steps.s.result.one")
    assert changed.refs == ("b" * 64,)


def test_what_was_redacted_before_is_no_value() -> None:
    """Contract: a path at a mark finds nothing, and a mark is no copy to look for."""
    [event], _ = erased([started({"a": "text", "b": {"c": 1}})], "input.a")
    again, erasure = erased([event], "input.a")
    assert (again, erasure.missing) == ([event], ["input.a"])
