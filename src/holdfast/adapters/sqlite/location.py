"""Where the store's file is, and whether SQLite is safe there. Checked before anything is opened or written.

The file is never opened here when it exists: closing a plain descriptor drops the locks that this process holds on the
file through SQLite.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from holdfast.errors import InvalidInput, StoreRefused

NETWORK_FILESYSTEMS = frozenset(
    "9p acfs afp afpfs afs beegfs ceph cifs coda davfs drvfs fhgfs fuse.ceph fuse.curlftpfs fuse.davfs fuse.davfs2 "
    "fuse.gcsfuse fuse.glusterfs fuse.gvfsd-fuse fuse.juicefs fuse.mount_glusterfs fuse.rclone fuse.s3fs "
    "fuse.seaweedfs fuse.sshfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs3 nfs4 ocfs2 orangefs pvfs2 smb smb2 smb3 "
    "smbfs sshfs webdav".split()
)
"""Filesystems on which SQLite's write-ahead log cannot rely on locks or shared memory."""

_MOUNTS = Path("/proc/self/mountinfo")
_PREFIX = "sqlite:///"


class Location(msgspec.Struct, frozen=True):
    """The resolved path of a store's file, and the address that users know."""

    path: Path
    url: str
    folder: Path | None = None  # a folder of its own that goes with it: the store is for this process only


def locate(address: str | os.PathLike[str]) -> Location:
    """The location that an address names. Symbolic links are followed once, here."""
    text = _path_in(os.fspath(address))
    if text == ":memory:":
        import tempfile  # not light, and a file of its own needs none

        folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        return Location(folder / "store.db", "sqlite:///:memory:", folder)
    path = Path(os.path.realpath(text))
    return Location(path, f"{_PREFIX}{path}")


def check_place(path: Path) -> None:
    """Raises `StoreRefused`, with the reason, if a store cannot be kept there."""
    folder = path.parent
    if not folder.is_dir():
        raise StoreRefused(f"cannot open the store {path}: the folder {folder} does not exist. Create it first.")
    if path.is_dir():
        raise StoreRefused(f"cannot open the store {path}: it is a folder. Name a file in it.")
    if path.exists() and not path.is_file():
        raise StoreRefused(f"cannot open the store {path}: it is not an ordinary file. Name a file on a local disk.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreRefused(
            f"cannot open the store {path}: no permission to write in the folder {folder}. SQLite keeps its log beside "
            "the file; use a folder this user may write to: App('sqlite:///…'), HOLDFAST_URL or [store] url in "
            "holdfast.toml says where the store is."
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreRefused(f"cannot open the store {path}: no permission to read and write this file.")
    filesystem = filesystem_of(path, _mounts())
    if filesystem in NETWORK_FILESYSTEMS:
        raise StoreRefused(
            f"cannot open the store {path}: it is on a network filesystem ({filesystem}), where SQLite's locks do not "
            "protect the data. Use a local disk, or PostgreSQL to share a store between machines."
        )


def make_private(path: Path) -> None:
    """Makes the file if it is missing, readable only by its owner. SQLite gives its log the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreRefused(
            f"cannot make the store {path}: {error.strerror}. Use a folder this user may write to: App('sqlite:///…'), "
            "HOLDFAST_URL or [store] url in holdfast.toml says where the store is."
        ) from error


def filesystem_of(path: Path, mounts: str) -> str:
    """The type of the filesystem that holds the path, from the text of /proc/self/mountinfo; empty if unknown."""
    found, depth = "", -1
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(_unescape(fields[4]))
        if path.is_relative_to(point) and len(point.parts) >= depth:  # a later mount covers an earlier one
            found, depth = right.split(" ", 1)[0], len(point.parts)
    return found


def _path_in(text: str) -> str:
    if not text.startswith("sqlite:"):
        if not text or "://" in text:
            raise InvalidInput(f"{text!r} is not the address of a SQLite store. Use sqlite:///file.db or a path.")
        return text
    path = text.removeprefix(_PREFIX)
    if path == text or not path:
        raise InvalidInput(
            f"{text!r} is not the address of a SQLite store. Use sqlite:///file.db for a file in the current folder, "
            "sqlite:////folder/file.db for an absolute path, or sqlite:///:memory: for a store of this process only."
        )
    if "?" in path:
        raise InvalidInput(f"{text!r}: the address of a SQLite store takes no options after '?'.")
    return path


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
