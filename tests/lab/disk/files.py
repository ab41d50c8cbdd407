"""Disks for SQLite that fail: one whose n-th call is refused, and one that loses its power.

Both are file systems of SQLite's over its own one. What a power cut leaves is worked out, not waited for: every write
since the last sync of its file is remembered with the bytes it replaced, so at any moment a copy can be made in which
those writes never happened, or only some of them did.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

BELOW = "unix"  # SQLite's own name for what POSIX offers
SECTOR = 512


class Faults(apsw.VFS):
    """SQLite's own file system, except that one call (or, if persistent, every call from then on) fails."""

    def __init__(self) -> None:
        super().__init__("faults", BELOW, makedefault=True)
        self.verb = ""
        self.code: type[apsw.Error] = apsw.IOError
        self.left = -1
        self.stays = False
        self.hits = 0

    def arm(self, verb: str, number: int, code: type[apsw.Error], *, stays: bool = False) -> None:
        """The number-th call of that verb from now on fails."""
        self.verb, self.left, self.code, self.stays, self.hits = verb, number, code, stays, 0

    def disarm(self) -> None:
        """All goes well again."""
        self.verb = ""

    def meet(self, verb: str) -> None:
        """Raises if it is time to."""
        if verb != self.verb:
            return
        self.left -= 1
        if self.left == 0 or (self.stays and self.left < 0):
            self.hits += 1
            raise self.code("injected")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FaultyFile:  # noqa: N802 SQLite's name
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    """A file of that file system."""

    def __init__(self, faults: Faults, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(BELOW, name, flags)
        self._faults = faults

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._faults.meet("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._faults.meet("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._faults.meet("truncate")
        super().xTruncate(newsize)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._faults.meet("read")
        return super().xRead(amount, offset)


class Unsynced(NamedTuple):
    """A write, or without `after` a truncation, that a power cut may undo: what was there before, in a file of that
    size."""

    offset: int
    before: bytes
    size: int
    after: bytes | None


class Power(apsw.VFS):
    """SQLite's own file system, with a memory of what is not on the disk yet. `on_call` hears of every call."""

    def __init__(self, on_call: Callable[[Power], None]) -> None:
        super().__init__("power", BELOW, makedefault=True)
        self.calls = 0
        self._on_call = on_call
        self._unsynced: dict[str, list[Unsynced]] = {}

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> PoweredFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return PoweredFile(self, path, name, flags)

    def remember(self, path: str, offset: int, after: bytes | None) -> None:
        """Those bytes are about to be written there, or without any, the file cut off there."""
        size = Path(path).stat().st_size
        with Path(path).open("rb") as file:
            file.seek(offset)
            before = file.read(size if after is None else len(after))
        self._unsynced.setdefault(path, []).append(Unsynced(offset, before, size, after))

    def synced(self, path: str) -> None:
        """What was written to that file is on the disk."""
        self._unsynced.pop(path, None)

    def called(self) -> None:
        """A call was carried out."""
        self.calls += 1
        self._on_call(self)

    def leave(self, store: Path, folder: Path, rng: Random | None) -> Path:
        """Makes what a power cut at this moment would leave: without any of the unsynced writes, or, if chance is to
        decide, with some of them, whole or torn at a sector."""
        folder.mkdir()
        for source in (store, Path(f"{store}-wal")):
            if source.exists():
                target = folder / source.name
                target.write_bytes(source.read_bytes())
                _rewrite(target, self._unsynced.get(str(source), []), rng)
        return folder / store.name


class PoweredFile(apsw.VFSFile):
    """A file of that file system."""

    def __init__(self, power: Power, path: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(BELOW, name, flags)
        self._power = power
        self._path = path

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._power.remember(self._path, offset, bytes(data))
        super().xWrite(data, offset)
        self._power.called()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._power.remember(self._path, newsize, None)
        super().xTruncate(newsize)
        self._power.called()

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._power.synced(self._path)
        self._power.called()


def _rewrite(target: Path, unsynced: list[Unsynced], rng: Random | None) -> None:
    """Takes the file back to its last sync, then does again what reached the disk all the same."""
    with target.open("r+b") as file:
        for write in reversed(unsynced):
            file.seek(write.offset)
            file.write(write.before)
            file.truncate(write.size)
        for write in unsynced if rng is not None else ():
            assert rng is not None
            if rng.random() < 0.5:
                continue
            if write.after is None:
                file.truncate(write.offset)
            else:
                sectors = -(-len(write.after) // SECTOR)
                file.seek(write.offset)
                file.write(write.after[: rng.randint(1, sectors) * SECTOR])
