"""Blobs as files of one folder, named by their SHA-256.

A file is written under another name (made with O_EXCL, so no link is followed), synced, renamed, and the folder is
synced: what has its name is whole, whenever the power goes. Two writers of one blob write the same bytes; either file
will do. A name is 64 hexadecimal digits or it never becomes a path, and what is found under it must be a plain file.

Removing a file races with a writer that finds it and relies on it. So a writer that finds a file updates its time, and
the collector first moves the file aside, under a name that no other collector uses, and then reads its time: if it is
new, the file goes back. A reader that comes in between looks aside too. A file may be moved aside between the look for
its name and the update of its time, so the writer looks again afterwards, and writes the blob anew if the file is gone.
Times are those of the store's clock, whatever the clocks of the hosts say.

A folder belongs to one store: a label in it holds the mark by which the store recognises it. So a process knows that
the path leads to the right folder, wherever a host has mounted it, before it writes anything or reports a blob as lost.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.adapters.blobs.label import LABEL, Label, check_mark, decode_label, encode_label, mark_for, new_label
from holdfast.errors import BlobNotFound, CorruptJournal, DiskFull, InvalidInput, StoreRefused, StoreUnavailable

_NAME = re.compile(r"[0-9a-f]{64}")
_NEW, _ASIDE = ".new", ".aside"
STRAY = 3600.0
"""Age in seconds at which an unrenamed temporary file counts as left over from a crash."""
LOOKS = 3
"""How often a reader looks that finds nothing: collectors may move the file away and back as it looks."""


class Folder:
    """A folder of blobs. Blocking: call it from a thread. With mark 0 its label is not checked."""

    def __init__(self, path: Path, mark: int = 0) -> None:
        self.path = path
        self.mark = mark

    def label(self, url: str) -> int:
        """Returns the mark of the folder. Labels the folder as that store's if it has no label yet. Raises
        `StoreRefused` if it cannot be used or belongs to another store."""
        self.prepare()
        file = self.path / LABEL
        try:
            known = _read_label(file)
            if known is None:
                new = self.path / f"{secrets.token_hex(8)}{_NEW}"
                self._write(new, encode_label(new_label(url)), time.time())
                _give_name(new, file)
                _sync(self.path)
                known = _read_label(file) or Label(0, "")
        except OSError as error:
            raise StoreRefused(f"cannot keep blobs in {self.path}: {error}. Name a folder of your own.") from error
        return mark_for(url, known, str(self.path), "folder")

    def check(self) -> None:
        """Raises `StoreUnavailable` unless the path leads to the folder with the mark."""
        if not self.mark:
            return
        try:
            found = _read_label(self.path / LABEL)
        except OSError as error:
            raise StoreUnavailable(f"the folder of the blobs at {self.path} cannot be read: {error}") from error
        check_mark(self.mark, found, str(self.path), "Is it mounted here, and is the path right?")

    def prepare(self) -> None:
        """Makes the folder if it is missing. Raises `StoreRefused` if it cannot be used."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.path.is_dir() or not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError("not a folder that this process may write to")
        except OSError as error:
            raise StoreRefused(f"cannot keep blobs in {self.path}: {error}. Name a folder of your own.") from error

    def put(self, name: str, data: bytes, at: float) -> None:
        """Stores the bytes durably. If the blob exists, its age starts again at zero."""
        self.check()
        target = self._file(name)
        try:
            if self._touch(target, len(data), at):
                return
            target.parent.mkdir(mode=0o700, exist_ok=True)
            self._file(name)  # what was made, or found, is a folder
            new = target.parent / f"{secrets.token_hex(8)}{_NEW}"
            try:
                self._write(new, data, at)
                new.replace(target)
            except BaseException:
                with suppress(OSError):
                    new.unlink()
                raise
            _sync(target.parent)
            _sync(self.path)
        except OSError as error:
            raise _translated(f"blob {name} was not stored in {self.path}", error) from error

    def get(self, name: str) -> bytes:
        """Returns the bytes of that name, verified."""
        if not _NAME.fullmatch(name):
            raise BlobNotFound(f"no blob {name!r} in {self.path}")
        file = self._file(name)
        data = _found(file)
        if data is None:
            self.check()
            raise BlobNotFound(f"no blob {name} in {self.path}")
        if sha256(data).hexdigest() != name:
            raise CorruptJournal(f"blob {name} in {self.path} does not hold the bytes of that name. Restore it.")
        return data

    def remove(self, names: Iterable[str], before: float) -> int:
        """Removes these blobs unless they were stored again after `before` (seconds since 1970). Returns how many it
        removed."""
        gone = 0
        for name in names:
            file = self._file(name)
            aside = file.with_suffix(f".{secrets.token_hex(8)}{_ASIDE}")
            with suppress(FileNotFoundError):
                file.replace(aside)
                if aside.stat().st_mtime >= before:
                    self._put_back(aside, file)
                else:
                    aside.unlink()
                    gone += 1
        return gone

    def parts(self, after: str = "") -> list[str]:
        """The subfolders after that one, in order. Blobs whose names begin alike share a subfolder."""
        found = [part for part in self.path.glob("[0-9a-f][0-9a-f]") if part.name > after]
        return sorted(part.name for part in found if part.is_dir() and not part.is_symlink())

    def sweep(self, part: str) -> int:
        """Cleans up after crashes: removes files that were never renamed and puts back files that were moved aside."""
        left = [*(self.path / part).glob(f"*{_NEW}"), *(self.path / part).glob(f"*{_ASIDE}")]
        if not left:
            return 0
        gone, old = 0, _now_of_files(self.path / part) - STRAY
        for file in left:
            with suppress(FileNotFoundError):
                if file.lstat().st_ctime >= old:
                    continue
                if file.suffix == _NEW:
                    file.unlink()
                    gone += 1
                else:
                    self._put_back(file, file.parent / file.name.partition(".")[0])
        return gone

    def names(self, part: str, before: float) -> list[str]:
        """The blobs of a subfolder that were stored before that time."""
        found: list[str] = []
        for file in (self.path / part).iterdir():
            with suppress(FileNotFoundError):
                if _NAME.fullmatch(file.name) and file.lstat().st_mtime < before:
                    found.append(file.name)
        return found

    # -- how -----------------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise BlobNotFound(f"{name!r} is not a blob name (64 hex digits)")
        part = self.path / name[:2]
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(part.lstat().st_mode):
                raise CorruptJournal(f"blob {name}: {part} is not a folder. The blob folder was changed from outside.")
        return part / name

    def _touch(self, file: Path, size: int, at: float) -> bool:
        """Gives the file a new time. Returns whether the whole file is there, and is there afterwards: the time may
        reach a file that was just moved aside and is removed for its old time."""
        try:
            found = file.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                return False
            os.utime(file, (at, at), follow_symlinks=False)
            return os.path.samestat(found, file.lstat())
        except FileNotFoundError:
            return False

    def _write(self, file: Path, data: bytes, at: float) -> None:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.utime(stream.fileno(), (at, at))
            os.fsync(stream.fileno())

    def _put_back(self, aside: Path, file: Path) -> None:
        """Undoes moving the file aside. A file that another process wrote meanwhile stays: its time is newer."""
        _give_name(aside, file)


def _now_of_files(folder: Path) -> float:
    """The time the file system gives to a new file. A file server has its own clock, which may be hours off."""
    os.utime(folder)
    return folder.stat().st_mtime


def _read_label(file: Path) -> Label | None:
    try:
        return decode_label(file.read_bytes())
    except FileNotFoundError:
        return None


def _give_name(new: Path, file: Path) -> None:
    """Gives the file its name, unless another process was faster; then that file stays."""
    try:
        os.link(new, file)
    except FileExistsError:
        pass
    except OSError:  # no links on this filesystem: of two that come together the last one's stays
        new.replace(file)
        return
    new.unlink()


def _read(file: Path) -> bytes | None:
    """Reads a plain file; None if it is missing."""
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_plain(file, error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_plain(file, None)
    with os.fdopen(handle, "rb") as stream:
        try:
            return stream.read()
        except OSError as error:
            raise _translated(f"blob {file.name} cannot be read", error) from error


def _found(file: Path) -> bytes | None:
    """Reads a blob, wherever it is; None if it is missing."""
    for _ in range(LOOKS):
        for look in (_read, _read_aside):
            data = look(file)
            if data is not None:
                return data
    return None


def _read_aside(file: Path) -> bytes | None:
    """Reads the file where a collector has moved it; None if it is not aside."""
    found = (_read(aside) for aside in file.parent.glob(f"{file.name}.*{_ASIDE}"))
    return next((data for data in found if data is not None), None)


def _not_plain(file: Path, error: OSError | None) -> CorruptJournal:
    reason = f": {error}" if error else ""
    return CorruptJournal(f"blob {file.name}: its path is not a plain file{reason}")


def _sync(folder: Path) -> None:
    """Syncs the folder, which makes a new name durable. Windows neither has nor needs this."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _translated(what: str, error: OSError) -> DiskFull | StoreUnavailable:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(f"{what}: {error}. Free some space; waiting runs then resume.")
    return StoreUnavailable(f"{what}: {error}")


def folder_of(address: str) -> Folder:
    """The folder that `blobs=` names. Raises `InvalidInput` if it names none."""
    parts = urlsplit(address)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not path.is_absolute() or path == Path("/"):
        raise InvalidInput(
            f'blobs={address!r}: use "store", a folder that all workers share ("file:///shared/folder"), or a bucket '
            '("s3://bucket/prefix")'
        )
    return Folder(path)
