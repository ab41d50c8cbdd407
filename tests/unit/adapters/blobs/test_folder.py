"""A folder of blobs: whole or not there, never followed elsewhere, removed only when nobody relies on it."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, step, workflow
from holdfast.adapters.blobs import folder as module
from holdfast.adapters.blobs.folder import Folder, folder_of
from holdfast.errors import BlobNotFound, CorruptJournal, DiskFull, InvalidInput, StoreRefused, StoreUnavailable

DATA = b"a blob"
NAME = sha256(DATA).hexdigest()
NOW = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "blobs")
    made.prepare()
    return made


def file_of(folder: Folder) -> Path:
    return folder.path / NAME[:2] / NAME


def test_a_blob_is_synced_before_it_has_its_name_and_its_folder_after(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: bytes, fsync, rename, fsync of the folder, in this order; only its owner may read it."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        done.append("sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        fsync(handle)

    def renamed(file: Path, target: Path) -> Path:
        done.append("rename")
        assert file.read_bytes() == DATA
        return replace(file, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    folder.put(NAME, DATA, NOW)
    assert done[:3] == ["sync file", "rename", "sync folder"]
    assert folder.get(NAME) == DATA
    assert stat.S_IMODE(file_of(folder).stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of(folder).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("where", ["write", "sync", "rename"])
def test_a_crash_before_the_rename_leaves_no_blob(folder: Folder, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Contract: whatever breaks, the name is not there or the whole blob is; and a later try succeeds."""

    def breaks(*_: object, **__: object) -> Any:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        if where == "write":
            patch.setattr(os, "utime", breaks)
        elif where == "sync":
            patch.setattr(os, "fsync", breaks)
        else:
            patch.setattr(Path, "replace", breaks)
        with pytest.raises(StoreUnavailable):
            folder.put(NAME, DATA, NOW)
        with pytest.raises(BlobNotFound):
            folder.get(NAME)
    folder.put(NAME, DATA, NOW)
    assert folder.get(NAME) == DATA


def test_a_full_disk_says_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: `DiskFull`, and nothing is left of the try."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull):
        folder.put(NAME, DATA, NOW)
    assert [x for x in folder.path.rglob("*") if x.is_file()] == []


@pytest.mark.parametrize("what", ["flipped", "cut", "longer", "a folder", "a link", "missing"])
def test_what_is_not_the_blob_is_an_error(folder: Folder, tmp_path: Path, what: str) -> None:
    """Contract: the bytes of that name, or an error; never others, never a file elsewhere."""
    folder.put(NAME, DATA, NOW)
    file = file_of(folder)
    file.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(DATA)
    changes: dict[str, Callable[[], object]] = {
        "flipped": lambda: file.write_bytes(b"A blob"),
        "cut": lambda: file.write_bytes(DATA[:-1]),
        "longer": lambda: file.write_bytes(DATA + b"!"),
        "a folder": file.mkdir,
        "a link": lambda: file.symlink_to(secret),
        "missing": lambda: None,
    }
    changes[what]()
    with pytest.raises(BlobNotFound if what == "missing" else CorruptJournal):
        folder.get(NAME)


@pytest.mark.parametrize(
    "name", ["", "../x", "/etc/passwd", NAME.upper(), NAME + "0", NAME[:-1], "CON", "a\\b", f"{NAME}\n"]
)
def test_only_a_hash_becomes_a_path(folder: Folder, name: str) -> None:
    """Contract: any other name finds nothing and writes nothing."""
    before = sorted(folder.path.rglob("*"))
    with pytest.raises(BlobNotFound):
        folder.get(name)
    with pytest.raises(BlobNotFound):
        folder.put(name, DATA, NOW)
    with pytest.raises(BlobNotFound):
        folder.remove([name], NOW)
    assert sorted(folder.path.rglob("*")) == before


def test_a_link_in_the_place_of_a_part_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    """Contract: neither for reading nor for writing."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NAME).write_bytes(DATA)
    (folder.path / NAME[:2]).symlink_to(elsewhere)
    with pytest.raises(CorruptJournal):
        folder.get(NAME)
    with pytest.raises(CorruptJournal):
        folder.put(NAME, DATA, NOW)
    assert [x.name for x in elsewhere.iterdir()] == [NAME]


@pytest.mark.spec("stepflow.B1")
def test_many_writers_of_one_blob_leave_one_valid_file(folder: Folder) -> None:
    """Contract: whoever comes first, and however many come together."""
    threads = [threading.Thread(target=folder.put, args=(NAME, DATA, NOW)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.name for x in folder.path.rglob("*") if x.is_file()] == [NAME]
    assert folder.get(NAME) == DATA


@pytest.mark.spec("stepflow.B1")
def test_a_blob_that_is_there_is_not_written_again(folder: Folder) -> None:
    """Promise: the same bytes are stored once; only their age starts again."""
    folder.put(NAME, DATA, NOW)
    first = file_of(folder).stat()
    folder.put(NAME, DATA, NOW + 60)
    again = file_of(folder).stat()
    assert again.st_ino == first.st_ino
    assert (first.st_mtime, again.st_mtime) == (NOW, NOW + 60)


def test_a_time_that_reaches_a_removed_file_does_not_count(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a writer that finds the file, and sets its time while another process removes it, writes it again. The
    system looks up the name first and sets the time later."""
    folder.put(NAME, DATA, NOW - 1000)
    utime = os.utime

    def late(file: Path, times: tuple[float, float], **_: Any) -> None:
        monkeypatch.undo()
        handle = os.open(file, os.O_RDONLY)
        assert folder.remove([NAME], NOW - 500) == 1
        utime(handle, times)
        os.close(handle)

    monkeypatch.setattr(os, "utime", late)
    folder.put(NAME, DATA, NOW)
    assert folder.get(NAME) == DATA


def test_what_is_put_back_leaves_a_newer_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a blob that was stored again while it was aside is as old as the last time it was stored."""
    folder.put(NAME, DATA, NOW - 1000)
    replace = Path.replace

    def replaces(file: Path, target: Path) -> Path:
        monkeypatch.undo()
        moved = replace(file, target)
        folder.put(NAME, DATA, NOW)
        return moved

    monkeypatch.setattr(Path, "replace", replaces)
    assert folder.remove([NAME], NOW - 2000) == 0
    assert folder.remove([NAME], NOW - 500) == 0
    assert folder.get(NAME) == DATA
    assert [file.name for file in file_of(folder).parent.iterdir()] == [NAME]


def test_two_collectors_at_once_leave_what_was_stored_between_them(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: one collector has found a file old and is about to remove it; a writer stores it again; a second
    collector moves that file aside. The first one removes the old file alone."""
    folder.put(NAME, DATA, NOW - 1000)
    replace, unlink = Path.replace, Path.unlink
    asides: list[Path] = []

    def replaces(file: Path, target: Path) -> Path:
        moved = replace(file, target)
        if target.suffix == ".aside":
            asides.append(target)
            if len(asides) == 2:  # as soon as the second collector has moved the file, the first one removes its own
                unlink(asides[0])
        return moved

    def unlinks(file: Path, missing_ok: bool = False) -> None:
        if file.suffix == ".aside" and len(asides) == 1:
            folder.put(NAME, DATA, NOW)
            assert folder.remove([NAME], NOW - 500) == 0
        else:
            unlink(file, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "replace", replaces)
    monkeypatch.setattr(Path, "unlink", unlinks)
    folder.remove([NAME], NOW - 500)
    assert folder.get(NAME) == DATA
    assert [file.name for file in file_of(folder).parent.iterdir()] == [NAME]


def test_what_a_crash_left_is_swept(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a file that was never given its name goes when it is old; one that was moved aside goes back."""
    folder.put(NAME, DATA, NOW)
    stray = file_of(folder).parent / "0123.new"
    stray.write_bytes(b"half")
    file_of(folder).replace(file_of(folder).with_suffix(".4567.aside"))
    assert folder.get(NAME) == DATA
    assert folder.parts() == [NAME[:2]]
    assert folder.sweep(NAME[:2]) == 0
    assert stray.exists()
    monkeypatch.setattr(module, "STRAY", -10.0)
    assert folder.sweep(NAME[:2]) == 1
    assert not stray.exists()
    assert file_of(folder).read_bytes() == DATA


@pytest.mark.parametrize("off", [2 * module.STRAY, -2 * module.STRAY], ids=["ahead", "behind"])
def test_a_clock_unlike_that_of_the_files_sweeps_as_any_other(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    """Contract: the age of a file is judged by the clock that gave it its time, such as that of a file server. A worker
    whose clock is two hours ahead leaves a file that another one is writing; one that is behind removes old ones."""
    folder.put(NAME, DATA, NOW)
    stray = file_of(folder).parent / "0123.new"
    stray.write_bytes(b"half")
    monkeypatch.setattr(time, "time", lambda: stray.stat().st_ctime + off)
    assert folder.sweep(NAME[:2]) == 0
    assert stray.exists()
    monkeypatch.setattr(module, "STRAY", -10.0)
    assert folder.sweep(NAME[:2]) == 1


@pytest.mark.parametrize("when", ["before it is moved aside", "while it is aside", "after it is gone"])
def test_a_writer_who_relies_on_a_blob_keeps_it_from_its_collector(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Contract: whenever somebody stores it again during its removal, it is there afterwards."""
    folder.put(NAME, DATA, NOW - 1000)
    replace, unlink = Path.replace, Path.unlink
    came: list[str] = []

    def come(moment: str) -> None:
        if when == moment and not came:
            came.append(moment)
            folder.put(NAME, DATA, NOW)

    def replaces(file: Path, target: Path) -> Path:
        if target.suffix == ".aside":
            come("before it is moved aside")
        moved = replace(file, target)
        if target.suffix == ".aside":
            come("while it is aside")
        return moved

    def unlinks(file: Path, missing_ok: bool = False) -> None:
        unlink(file, missing_ok=missing_ok)
        come("after it is gone")

    monkeypatch.setattr(Path, "replace", replaces)
    monkeypatch.setattr(Path, "unlink", unlinks)
    folder.remove([NAME], NOW - 500)
    assert came == [when]
    assert folder.get(NAME) == DATA


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Contract: at once, with the reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreRefused, match="cannot keep blobs in"):
        Folder(tmp_path / "file").prepare()


@pytest.mark.parametrize("address", ["", "folder", "s3://bucket", "file://host/x", "file:///", "file:relative"])
def test_another_address_is_refused(address: str) -> None:
    """Contract: the error shows what to write."""
    with pytest.raises(InvalidInput, match="file:///shared/folder"):
        folder_of(address)


def test_an_address_names_a_folder() -> None:
    """Contract: a URL is one, its escapes undone."""
    assert folder_of("file:///shared/my%20folder").path == Path("/shared/my folder")


@step
async def large(size: int) -> str:
    return "x" * size


@workflow
async def twice(size: int) -> int:
    return len(await large(size)) + len(await large(size))


@pytest.mark.spec("stepflow.B5")
async def test_an_app_keeps_its_blobs_in_the_folder(tmp_path: Path) -> None:
    """Contract: large payloads are files there, the database holds none of their bytes, and every app reads them."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    app = App(url, workflows=[twice], blobs=f"file://{tmp_path / 'blobs'}")
    async with app.worker():
        run = await app.start(twice(300_000), id="r")
        assert await run.result("30s") == 600_000
        space = await (await app.client()).store.space()
        assert [(part.name, part.rows) for part in space.blobs] == [("payload", 1)]
        assert space.total < 300_000  # less than the payload alone: the rest is the empty tables
    assert [x.stat().st_size for x in (tmp_path / "blobs").glob("*/*")] == [300_002]


async def test_a_folder_is_refused_where_workers_may_not_share_it(tmp_path: Path) -> None:
    """Contract: on PostgreSQL only with `shared = true`; said before anything is opened."""
    app = App("postgresql://nowhere/db", blobs=f"file://{tmp_path / 'blobs'}")
    with pytest.raises(InvalidInput, match="shared = true"):
        await app.client()
    assert not (tmp_path / "blobs").exists()
