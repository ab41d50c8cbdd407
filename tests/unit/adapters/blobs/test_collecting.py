"""Files of a folder and the rows of its store: what is taken when one knows of a blob and the other does not (yet)."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.blobs.folder import Folder
from holdfast.adapters.blobs.folder_home import FolderHome
from holdfast.adapters.blobs.housed_store import UNHEARD, with_home
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.store import Store
from holdfast.upkeep import sweep as sweeping
from holdfast.upkeep.sweep import sweep
from tests.support.faults import FaultyStore
from tests.support.world import START

DATA = b"a blob"
NAME = sha256(DATA).hexdigest()
NONE = timedelta(0)
GRACE = timedelta(days=1)
SECOND = timedelta(seconds=1)


class Place:
    """A store, its folder, and a hand on its clock; `asked` counts what the folder's side asks the store."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock(START)
        self.folder = Folder(path)
        self.folder.prepare()
        self.faulty = FaultyStore(MemoryStore(self.clock))
        self.store: Store = with_home(self.faulty.store, FolderHome(self.folder))

    @property
    def asked(self) -> int:
        return sum(self.faulty.calls[verb] for verb in ("known_blobs", "blob_kind"))

    def put_stray(self, data: bytes) -> str:
        """A file that its writer never told the store of."""
        name = sha256(data).hexdigest()
        self.folder.put(name, data, self.clock.now().timestamp())
        return name

    def files(self) -> int:
        return len(list(self.folder.path.glob("*/*")))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "blobs")


@pytest.mark.parametrize("was_there", [False, True], ids=["new", "stored before"])
async def test_a_file_that_the_store_is_about_to_hear_of_stays(place: Place, was_there: bool) -> None:
    """Contract: however short the grace: bytes are in the folder a moment before the store knows of them."""
    if was_there:
        await place.store.put_blob(DATA)
        place.clock.advance(SECOND)

    async def collect_in_between(verb: str, _: tuple[Any, ...]) -> None:
        if verb == "put_blob":
            place.faulty.before = None
            place.clock.advance(SECOND)
            await sweep(place.store, None, NONE)

    place.faulty.before = collect_in_between
    await place.store.put_blob(DATA)
    assert await place.store.get_blob(NAME) == DATA


async def test_what_its_writer_never_told_of_goes_with_a_sweep(place: Place) -> None:
    """Contract: after the grace, and not before the hour in which the store may hear of it."""
    name = place.put_stray(DATA)
    place.clock.advance(UNHEARD)
    await sweep(place.store, None, NONE)
    assert place.folder.get(name) == DATA
    place.clock.advance(SECOND)
    await sweep(place.store, None, GRACE)
    assert place.folder.get(name) == DATA
    await sweep(place.store, None, NONE)
    assert place.files() == 0


async def test_a_blob_nobody_needs_goes_with_its_file(place: Place) -> None:
    """Contract: its row after the grace; its file then too, or an hour after it was stored, if that comes later."""
    await place.store.put_blob(DATA)
    place.clock.advance(GRACE + SECOND)
    assert (await sweep(place.store, None, GRACE)).collected.blobs == 1
    assert place.files() == 0
    await place.store.put_blob(DATA)
    place.clock.advance(SECOND)
    assert (await sweep(place.store, None, NONE)).collected.blobs == 1
    assert place.files() == 1
    place.clock.advance(UNHEARD)
    await sweep(place.store, None, NONE)
    assert place.files() == 0


@pytest.fixture
def in_tens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep in pieces of ten."""
    monkeypatch.setattr(sweeping, "BLOBS", 10)
    monkeypatch.setattr(sweeping, "FILES", 10)


@pytest.mark.usefixtures("in_tens")
async def test_a_sweep_asks_about_many_files_at_once(place: Place) -> None:
    """Contract: the folder is gone through once in a sweep, however many rounds the blobs take, and the store is asked
    about many files in one question."""
    for number in range(40):
        await place.store.put_blob(b"loose %d" % number)
    place.clock.advance(GRACE)
    kept = [await place.store.put_blob(b"%d" % number) for number in range(100)]
    await place.store.put_blob(b'["%b"]' % b'","'.join(name.encode() for name in kept))
    stray = place.put_stray(b"stray")
    place.clock.advance(UNHEARD + SECOND)
    swept = await sweep(place.store, None, GRACE)
    assert swept.collected.blobs == 40
    assert place.files() == 102
    assert place.asked == 0
    await sweep(place.store, None, UNHEARD)
    assert not (place.folder.path / stray[:2] / stray).exists()
    assert 1 <= place.asked <= 12


@pytest.mark.usefixtures("in_tens")
async def test_a_sweeper_is_asked_whether_it_goes_on_between_files(place: Place) -> None:
    """Contract: so that a duty is prolonged, or given up, in a folder of any size."""
    for number in range(60):
        place.put_stray(b"%d" % number)
    place.clock.advance(GRACE + SECOND)
    rounds = 0

    async def goes_on() -> bool:
        nonlocal rounds
        rounds += 1
        return rounds <= 4

    await sweep(place.store, None, GRACE, goes_on=goes_on)
    assert 10 <= place.files() <= 40
    await sweep(place.store, None, GRACE)
    assert place.files() == 0
