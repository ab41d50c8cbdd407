"""What may be opened, what is refused and why, and what is left alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, location, migrations, open_sqlite
from holdfast.adapters.sqlite.connections import open_writable, pragma
from holdfast.errors import InvalidInput, StoreRefused
from holdfast.testing.conformance.world import START, World


def content(path: Path) -> bytes:
    return path.read_bytes()


def is_there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
def empty(path: Path) -> Path:
    path.touch()
    return path


def of_another_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def of_a_newer_version(path: Path) -> None:
    connection = apsw.Connection(str(path))
    pragma(connection, "application_id", migrations.APPLICATION_ID)
    pragma(connection, "user_version", 99)
    connection.close()


def of_text(path: Path) -> None:
    path.write_text("dear diary, " * 1000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (of_another_program, ["another program"]),
        (of_a_newer_version, ["version 99", f"up to {len(migrations.MIGRATIONS)}", "upgrade"]),
        (of_text, ["not a SQLite database"]),
    ],
)
async def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    make: Callable[[Path], None], words: list[str], path: Path
) -> None:
    """Contract: the message says what it is; not a byte of the file changes."""
    make(path)
    before = content(path)
    with pytest.raises(StoreRefused) as refused:
        await open_sqlite(path)
    assert all(word in str(refused.value) for word in [*words, str(path)])
    assert content(path) == before


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match=r"the folder .*nowhere does not exist"):
        await open_sqlite(tmp_path / "nowhere" / "store.db")


async def test_a_folder_where_no_file_can_be_made_is_refused_with_what_to_do() -> None:
    """Promise: what, where, and where to say another place."""
    with pytest.raises(StoreRefused, match=r"cannot make the store /proc/x\.db: .*HOLDFAST_URL or \[store\] url in"):
        await open_sqlite("/proc/x.db")


async def test_what_is_no_ordinary_file_is_no_store() -> None:
    """Promise: a device is refused by name, before SQLite says "disk I/O error"."""
    with pytest.raises(StoreRefused, match="cannot open the store /dev/null: it is not an ordinary file"):
        await open_sqlite("/dev/null")


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="it is a folder"):
        await open_sqlite(tmp_path)


@pytest.mark.parametrize("refused", ["folder", "file"])
async def test_no_permission_is_a_plain_refusal(
    refused: str, empty: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: a read-only folder or file is refused before anything is made. (Root may write anywhere: simulated.)"""
    place = path.parent if refused == "folder" else path
    monkeypatch.setattr("os.access", lambda asked, _: Path(asked) != place)
    with pytest.raises(StoreRefused, match="no permission"):
        await open_sqlite(path)
    assert content(empty) == b""


MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - overlay overlay rw
25 22 0:22 / /tmp rw - tmpfs tmpfs rw
40 22 0:40 / /mnt/team\040files rw - nfs4 server:/export rw
41 40 0:41 / /mnt/team\040files/local rw - ext4 /dev/sdb rw
42 22 0:42 / /mnt/ssh rw - fuse.sshfs host:/ rw
43 22 0:43 / /mnt/twice rw - ext4 /dev/sdc rw
44 22 0:44 / /mnt/twice rw - cifs //server/share rw
a line that is none
"""


@pytest.mark.parametrize(
    ("file", "filesystem"),
    [
        ("/srv/store.db", "overlay"),
        ("/tmp/store.db", "tmpfs"),
        ("/mnt/team files/store.db", "nfs4"),
        ("/mnt/team files/local/store.db", "ext4"),
        ("/mnt/ssh/a/b/store.db", "fuse.sshfs"),
        ("/mnt/sshd/store.db", "overlay"),
        ("/mnt/twice/store.db", "cifs"),
    ],
)
def test_the_filesystem_of_a_path(file: str, filesystem: str) -> None:
    """Contract: the innermost mount counts, and of two in one place the later."""
    assert location.filesystem_of(Path(file), MOUNTS) == filesystem


@pytest.mark.parametrize("filesystem", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "lustre", "afs"])
async def test_network_filesystems_are_refused(filesystem: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: refused with a plain message before a file is made; also through a symbolic link."""
    real = path.parent / "shared"
    real.mkdir()
    (path.parent / "link").symlink_to(real)
    mounts = f"22 1 0:1 / / rw - ext4 /dev/sda rw\n23 22 0:2 / {real} rw - {filesystem} server:/ rw\n"
    monkeypatch.setattr(location, "_mounts", lambda: mounts)
    with pytest.raises(StoreRefused, match=f"network filesystem \\({filesystem}\\)"):
        await open_sqlite(path.parent / "link" / "store.db")
    assert list(real.iterdir()) == []


@pytest.fixture
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless_umask")
async def test_files_are_for_their_owner_alone(path: Path) -> None:
    """Contract: the file, its log, its index and its board are made 0600, whatever the umask."""
    store = await open_sqlite(path)
    await World(store, VirtualClock(START)).make("order-1")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await store.close()
    names = ("store.db", "store.db-wal", "store.db-shm", "store.db-waiting")
    assert modes == dict.fromkeys(names, 0o600)


@pytest.mark.parametrize("address", ["sqlite:///sub/store.db", "sub/store.db", Path("sub/store.db")])
async def test_a_relative_address_is_of_the_current_folder(
    address: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    store = await open_sqlite(address)
    assert store.url == f"sqlite:///{tmp_path}/sub/store.db"
    await store.close()
    assert (tmp_path / "sub" / "store.db").exists()


async def test_an_absolute_address(path: Path) -> None:
    store = await open_sqlite(f"sqlite:///{path}")
    assert store.url == f"sqlite:///{path}"
    await store.close()


@pytest.mark.parametrize("address", ["", "sqlite:", "sqlite://", "sqlite:///", "sqlite://host/x.db", "postgres://x/y"])
async def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a SQLite store"):
        await open_sqlite(address)


async def test_options_in_an_address_are_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="takes no options"):
        await open_sqlite(f"sqlite:///{path}?mode=ro")


async def test_an_unknown_durability_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="durability='hopeful'"):
        await open_sqlite(path, durability="hopeful")  # type: ignore[arg-type]
    assert not is_there(path)


async def test_a_store_of_this_process_leaves_nothing_behind() -> None:
    """Contract: `:memory:` is one store for all connections of it, and goes when it is closed."""
    first, second = await open_sqlite("sqlite:///:memory:"), await open_sqlite("sqlite:///:memory:")
    assert first.url == "sqlite:///:memory:"
    await World(first, VirtualClock(START)).make("order-1")
    assert (await first.get("order-1"), await second.get("order-1")) != (None, None)
    assert await second.get("order-1") is None
    folder = first._location.folder
    await first.close()
    await second.close()
    assert folder is not None
    assert not is_there(folder)


async def test_an_empty_file_becomes_a_store(empty: Path) -> None:
    store = await open_sqlite(empty)
    assert await store.count()
    await store.close()


async def test_the_settings_that_durability_rests_on(store: SqliteStore) -> None:
    """Contract: write-ahead log, a sync at each commit, foreign keys, no mapped pages, no timeout that starves."""
    connection = store._writer._link.connected()
    settings = ("journal_mode", "synchronous", "foreign_keys", "mmap_size", "busy_timeout", "trusted_schema")
    assert [pragma(connection, name) for name in settings] == ["wal", 2, 1, 0, 0, 0]


async def test_a_file_is_migrated_only_when_allowed(path: Path) -> None:
    """Contract: with automatic migration off, an older file is refused and stays as it is."""
    with pytest.raises(StoreRefused, match="automatic migration is off"):
        await open_sqlite(path, auto_migrate=False)
    await (await open_sqlite(path)).close()
    await (await open_sqlite(path, auto_migrate=False)).close()


def test_a_migration_is_all_or_nothing(path: Path) -> None:
    """Contract: one that breaks half-way leaves the version before it, whole; mended, it goes on from there."""
    path.touch()
    connection = open_writable(path, "full")
    first, broken = "CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO a VALUES (1); INSERT INTO c VALUES (1)"
    with pytest.raises(apsw.SQLError):
        migrations.migrate(connection, (first, broken))
    assert (pragma(connection, "user_version"), connection.table_exists(None, "b")) == (1, False)
    assert connection.execute("SELECT count(*) FROM a").fetchall() == [(0,)]
    migrations.migrate(connection, (first, "CREATE TABLE b (x)", "CREATE TABLE c (x)"))
    assert (pragma(connection, "user_version"), connection.table_exists(None, "c")) == (3, True)
    connection.close()
