"""Which blobs a payload and a fact refer to."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import MAX_INLINE, Shape, hash_of
from holdfast.core.references import BlobRef, ReferringBytes, references_in, references_of, referred_by

A, B, C = (letter * 64 for letter in "abc")
REF = BlobRef(A, 7, "bytes")


@dataclass
class Parcel:
    label: BlobRef
    others: list[BlobRef]


def encoded(value: object, annotation: object) -> bytes:
    """As a step's result or argument is."""
    return Shape[object](annotation, what="it").encode(value)


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        (encoded(REF, BlobRef), (A,)),
        (encoded(Parcel(REF, [BlobRef(B, 0, "json"), REF]), Parcel), (A, B)),
        (encoded({"deep": [{"er": msgspec.to_builtins(REF)}]}, object), (A,)),
        (encoded({"args": [encoded(REF, BlobRef).decode()]}, object), (A,)),
        (encoded([encoded([encoded(REF, BlobRef).decode()], list[str]).decode()], list[str]), (A,)),
        (encoded(A, str), ()),
        (encoded({"name": "x" * 64, "size": 1, "kind": "json"}, object), ()),
        (encoded({"name": A, "size": 1}, object), ()),
        (b'"size', ()),
        (b"", ()),
    ],
    ids=["ref", "class", "plain", "text", "text in text", "name", "no name", "not whole", "cut", "none"],
)
def test_a_payload_refers_to_the_blobs_it_has_a_ref_of(payload: bytes, names: tuple[str, ...]) -> None:
    """Promise: a `BlobRef` is found wherever it is, also in JSON that is a text in other JSON; a name alone is text."""
    assert references_in(payload) == names


def test_a_payload_says_what_it_refers_to_inline_and_as_a_blob() -> None:
    """Promise: the fact says it, and so do the bytes of a blob, so that it is said for whoever keeps only one."""
    blobs: dict[str, bytes] = {}
    small = encoded(REF, BlobRef)
    value, blob, refs = c.carry(small, blobs)
    assert (bytes(value), blob, refs, blobs) == (small, "", (A,), {})
    large = encoded([REF, "x" * MAX_INLINE], list[BlobRef | str])
    value, blob, refs = c.carry(large, blobs)
    assert (value, blob, refs) == (e.NULL, hash_of(large), (A,))
    assert blobs[blob] == large
    assert referred_by(blobs[blob]) == (A,)


def test_every_command_with_a_payload_says_what_that_refers_to() -> None:
    """Promise: none of the facts that a program asks for forgets a reference."""
    data = encoded(REF, BlobRef)
    commands: list[c.Command] = [
        c.StartChild(key="k", run="r", workflow="w", version="", args=data),
        c.Send(key="k", to="r", kind="signal", value=data),
        c.Expose(name="n", value=data),
        c.Complete(value=data),
        c.ContinueAs(workflow="w", version="", args=data),
    ]
    assert [references_of([c.record(command, {})]) for command in commands] == [(A,)] * len(commands)


def test_facts_refer_to_blobs_and_to_what_is_in_them() -> None:
    """Promise: each blob once: payloads, what they refer to, a flow's definition, adopted facts, packed turns."""
    facts: list[e.AnyEvent] = [
        e.Started(workflow="w", style="flow", code=C, blob=A),
        e.StepCompleted(key="s", blob=A, refs=(B,)),
        e.Adopted(facts=(e.StepCompleted(key="t", refs=("d" * 64,)),)),
        e.Compacted(rows=1, fold=e.NULL, segments=(e.Segment("e" * 64, 1, 1, (B, "f" * 64)),)),
        e.TimerFired(key="x"),
    ]
    assert references_of(facts) == (A, C, B, "d" * 64, "e" * 64, "f" * 64)
    assert references_of([e.Started(workflow="w", code=C)]) == ()


def test_a_fact_without_references_is_written_as_before() -> None:
    """Promise: a journal without blobs takes not one byte more."""
    event = e.StepCompleted(key="s", value=msgspec.Raw(b"1"))
    assert msgspec.json.encode(event) == b'{"t":"done","value":1,"key":"s"}'


def test_bytes_that_refer_are_bytes() -> None:
    """Promise: they compare, hash and are named like the bytes they are."""
    data = ReferringBytes(b"index", [A, B])
    assert (data, hash_of(data), referred_by(data)) == (b"index", hash_of(b"index"), (A, B))
    assert referred_by(b"index") == ()
