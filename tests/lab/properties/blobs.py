"""Blobs in a folder against a dictionary, with writers that die at any call and a collector that comes at any time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from holdfast.adapters.blobs import folder as home
from holdfast.adapters.blobs.folder import Folder
from holdfast.errors import BlobNotFound, CorruptJournal

CONTENTS = tuple(bytes([number]) * (number * 40) for number in range(6))
GRACE = 10.0
contents = st.sampled_from(CONTENTS)


class Killed(BaseException):
    """The process ends here."""


def name_of(data: bytes) -> str:
    return sha256(data).hexdigest()


class Blobs(RuleBasedStateMachine):
    """`stored`: what was acknowledged, and when; `perhaps`: what a writer that died may have left whole."""

    def __init__(self) -> None:
        super().__init__()
        self._place = tempfile.TemporaryDirectory(prefix="holdfast-blobs-")
        self.folder = Folder(Path(self._place.name))
        self.folder.prepare()
        self.now = 1000.0
        self.stored: dict[str, tuple[bytes, float]] = {}
        self.perhaps: dict[str, bytes] = {}
        self.damaged: set[str] = set()

    def teardown(self) -> None:
        self._place.cleanup()

    @rule(by=st.sampled_from([1.0, 6.0, 30.0]))
    def time_passes(self, by: float) -> None:
        self.now += by

    @rule(data=contents)
    def put(self, data: bytes) -> None:
        name = name_of(data)
        self.folder.put(name, data, self.now)
        if name not in self.damaged:  # a file of the right size is taken for what it says
            self.stored[name] = (data, self.now)
            self.perhaps.pop(name, None)

    @rule(data=contents, call=st.sampled_from(["not written", "torn", "not named", "not synced"]))
    def put_by_one_who_dies(self, data: bytes, call: str) -> None:
        """Before it has written, in the middle, before it has given the name, or before the name is durable."""
        name = name_of(data)
        if name in self.damaged:
            return
        with self.dying(call):
            try:
                self.folder.put(name, data, self.now)
            except Killed:
                if name not in self.stored:
                    self.perhaps[name] = data
            else:  # it was there
                self.stored[name] = (data, self.now)
                self.perhaps.pop(name, None)

    @contextmanager
    def dying(self, call: str) -> Iterator[None]:
        """Nothing that would clean up is run either: a process that is killed does not."""

        def die(*_: object) -> None:
            raise Killed

        def tear(_: Folder, file: Path, data: bytes, at: float) -> None:
            file.write_bytes(data[: len(data) // 2])
            raise Killed

        keep = mock.patch.object(Path, "unlink", return_value=None)
        owner, name, end = {
            "not written": (Folder, "_write", die),
            "torn": (Folder, "_write", tear),
            "not named": (Path, "replace", die),
            "not synced": (home, "_sync", die),
        }[call]
        with keep, mock.patch.object(owner, name, end):
            yield

    @precondition(lambda self: self.stored)
    @rule(data=contents)
    def collect(self, data: bytes) -> None:
        """Removes what is older than the grace, and nothing else."""
        name = name_of(data)
        before = self.now - GRACE
        gone = self.folder.remove([name], before)
        at = self.stored.get(name, (b"", 0.0))[1]
        if name in self.stored and name not in self.damaged:
            assert gone == (at < before)
        if gone:
            self.stored.pop(name, None)
            self.perhaps.pop(name, None)
            self.damaged.discard(name)

    @rule()
    def sweep(self) -> None:
        """Years later: what was never named is gone, everything else is there."""
        for file in self.folder.path.glob("*/*.new"):
            os.utime(file)
        with mock.patch.object(home, "STRAY", -1.0):
            for part in self.folder.parts():
                self.folder.sweep(part)
        assert not list(self.folder.path.glob("*/*.new"))

    @rule(data=contents)
    def rot(self, data: bytes) -> None:
        """A byte on the disk changes."""
        name = name_of(data)
        file = self.folder.path / name[:2] / name
        if data and file.exists():
            at = file.stat().st_mtime
            file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
            os.utime(file, (at, at))
            self.damaged.add(name)

    @rule(data=contents)
    def get(self, data: bytes) -> None:
        """S18: the bytes of that name, or an error; nothing acknowledged is missing."""
        name = name_of(data)
        try:
            found = self.folder.get(name)
        except BlobNotFound:
            assert name not in self.stored, "acknowledged, and gone"
        except CorruptJournal:
            assert name in self.damaged
        else:
            assert name not in self.damaged, "changed bytes were given out"
            assert found == data
            assert name in self.stored or name in self.perhaps

    @rule(age=st.sampled_from([0.0, GRACE]))
    def names(self, age: float) -> None:
        found = {name for part in self.folder.parts() for name in self.folder.names(part, self.now - age)}
        told = {name for name, (_, at) in self.stored.items() if at < self.now - age and name not in self.damaged}
        assert told <= found
        assert found <= self.stored.keys() | self.perhaps.keys() | self.damaged
