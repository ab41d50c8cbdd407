"""The property tests of the lab in short: every machine runs, and each finds what was broken for it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.adapters.blobs.folder import Folder
from holdfast.adapters.memory.store import MemoryStore
from holdfast.core import codec
from holdfast.engine.wheel import Wheel
from tests.lab.properties.campaign import EXAMPLES, MACHINES, portion, void

SEED = 7
FEW = 3
ENOUGH = 400
"""Far more than finding what is broken takes, about ten. The seed does not decide all: Hypothesis also draws
constants of the modules that happen to be loaded."""


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_runs(name: str) -> None:
    """Contract: what the lab does hundreds of times is done a few times with every run of the suite."""
    _, counts, problem = portion(name, 0, SEED, FEW)
    assert not problem
    assert counts["examples"] >= FEW


def test_a_timer_that_fires_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(wheel: Wheel) -> int:
        due = [entry[2] for entry in sorted(wheel._heap, key=lambda entry: entry[:2])]
        wheel._heap.clear()
        for callback in [each.callback for each in due]:
            if callback is not None:
                callback()
        return len(due)

    monkeypatch.setattr(Wheel, "turn", turn)
    assert "timers" in portion("timers and retries", 0, SEED, ENOUGH, shortens=False)[2]


def test_bytes_that_are_not_checked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(blobs: Folder, name: str) -> bytes:
        return (blobs.path / name[:2] / name).read_bytes() if (blobs.path / name[:2] / name).exists() else b""

    monkeypatch.setattr(Folder, "get", get)
    assert "blobs" in portion("blobs in a folder", 0, SEED, ENOUGH, shortens=False)[2]


def test_a_lease_that_anybody_may_give_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    release = MemoryStore.release

    async def released(store: MemoryStore, run: int, *, epoch: int, **rest: Any) -> bool:
        return any([await release(store, run, epoch=each, **rest) for each in range(epoch, epoch + 20)])

    monkeypatch.setattr(MemoryStore, "release", released)
    assert "leases" in portion("leases and claims", 1, SEED, ENOUGH, shortens=False)[2]


def test_a_codec_that_cuts_text_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = codec.Codec.decode

    def decoded(compiled: codec.Codec, data: Any, what: str, outer: int = 0) -> Any:
        value = decode(compiled, data, what, outer)
        return value[:5] if isinstance(value, str) else value

    monkeypatch.setattr(codec.Codec, "decode", decoded)
    assert "codec" in portion("codec", 0, SEED, ENOUGH, shortens=False)[2]


def test_a_level_with_too_few_examples_is_void() -> None:
    """Promise: 200 examples of every machine, or the level fails."""
    assert void({"codec": EXAMPLES, "blobs": EXAMPLES + 3}) == []
    assert void({"codec": EXAMPLES - 1}) == ["void: 199 examples of codec, 200 are the least"]
