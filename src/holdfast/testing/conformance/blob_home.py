"""A home of blobs: bytes by their SHA-256, of one store, removed only when nothing can rely on them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.errors import BlobNotFound, CorruptJournal, StoreRefused, StoreUnavailable
from holdfast.ports.blob_home import BlobHome
from holdfast.testing.conformance.suite import Blocking, shows
from holdfast.testing.conformance.world import START

URL = "sqlite:///mine.db"
DAY = timedelta(days=1)
WRONG = ["", "../x", "/etc/passwd", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n", "0" * 62 + "/0"]


def name_of(data: bytes) -> str:
    return sha256(data).hexdigest()


class BlobHomeSuite(Blocking, ABC):
    """What a home must do for the store whose blobs it keeps. Subclass it as `Test…` and define how yours is made."""

    @abstractmethod
    async def make(self, place: Path) -> BlobHome:
        """A home that has not been opened. The same `place` is the same home, also in another process. Each case has
        its own place, which is empty."""
        ...

    @abstractmethod
    async def change(self, home: BlobHome, name: str, data: bytes) -> None:
        """Replaces the bytes of the blob, as a broken disk or a careless person might."""
        ...

    @abstractmethod
    async def count(self, home: BlobHome) -> int:
        """The number of blobs there, including copies, without the label."""
        ...

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return tmp_path / "home"

    @pytest.fixture
    def home(self, place: Path) -> Iterator[BlobHome]:
        """An open home of the store at `URL`."""
        with asyncio.Runner() as runner:
            self.runner = runner
            home = runner.run(self.opened(place))
            yield home
            runner.run(home.close())

    async def opened(self, place: Path, url: str = URL) -> BlobHome:
        """The home, opened as by a store that has none yet."""
        home = await self.make(place)
        await home.open(await home.own(url))
        return home

    @pytest.mark.parametrize("size", [0, 1, 1_000_000, 20_000_000])
    @shows("stepflow.B1")
    async def test_bytes_come_back(self, home: BlobHome, size: int) -> None:
        """Contract: bytes come back unchanged, small and large; storing them again changes nothing."""
        data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        for _ in range(2):
            await home.put([(name_of(data), data)], START)
            assert dict(await home.get([name_of(data)])) == {name_of(data): data}

    async def test_many_at_once(self, home: BlobHome, place: Path) -> None:
        """Contract: all of them are read, also by another process; missing ones are left out."""
        blobs = [(name_of(b"%d" % number), b"%d" % number) for number in range(40)]
        await home.put(blobs, START)
        other = await self.opened(place)
        assert dict(await other.get([name_of(b"none"), *(name for name, _ in blobs)])) == dict(blobs)
        await other.close()

    @pytest.mark.parametrize("name", WRONG)
    async def test_only_a_hash_is_a_name(self, home: BlobHome, name: str) -> None:
        """Contract: anything else finds nothing, writes nothing and removes nothing."""
        assert dict(await home.get([name])) == {}
        with pytest.raises(BlobNotFound):
            await home.put([(name, b"data")], START)
        with pytest.raises(BlobNotFound):
            await home.remove([name], START + DAY)
        assert await self.count(home) == 0

    @pytest.mark.parametrize("changed", [b"A blob", b"a blo", b"a blob!", b""])
    async def test_what_was_changed_is_an_error(self, home: BlobHome, changed: bytes) -> None:
        """Contract: a read returns the right bytes or an error that names the blob, never other bytes."""
        await home.put([(name_of(b"a blob"), b"a blob")], START)
        await self.change(home, name_of(b"a blob"), changed)
        with pytest.raises(CorruptJournal, match=name_of(b"a blob")):
            await home.get([name_of(b"a blob")])

    # -- whose it is ---------------------------------------------------------------------------------------------------

    async def test_a_home_has_one_mark(self, home: BlobHome, place: Path) -> None:
        """Contract: the first process creates it and all others find it, however many start at once."""
        homes = [await self.make(place) for _ in range(6)]
        marks = set(await asyncio.gather(*(each.own(URL) for each in homes)))
        assert marks == {await home.own(URL)}
        assert min(marks) > 0
        fresh = [await self.make(place.with_name("fresh")) for _ in range(6)]
        assert len(set(await asyncio.gather(*(each.own(URL) for each in fresh)))) == 1

    async def test_a_home_belongs_to_one_store(self, home: BlobHome, place: Path) -> None:
        """Contract: another store is refused, with the owner's address."""
        other = await self.make(place)
        with pytest.raises(StoreRefused, match=r"another store.*mine\.db"):
            await other.own("sqlite:///other.db")

    async def test_another_home_is_refused(self, home: BlobHome, place: Path) -> None:
        """Contract: a home without the mark, empty or of another store, is refused; nothing is written there."""
        mark = await home.own(URL)
        empty = await self.make(place.with_name("empty"))
        with pytest.raises(StoreRefused, match="not the home"):
            await empty.open(mark)
        theirs = await self.opened(place.with_name("theirs"), "sqlite:///other.db")
        with pytest.raises(StoreRefused, match="not the home"):
            await theirs.open(mark)
        assert await self.count(theirs) == 0
        with pytest.raises(StoreUnavailable, match="not the home"):
            await theirs.check()
        await home.check()

    # -- removing ------------------------------------------------------------------------------------------------------

    async def stored(self, home: BlobHome, at: datetime, *texts: bytes) -> list[str]:
        await home.put([(name_of(text), text) for text in texts], at)
        return [name_of(text) for text in texts]

    async def test_what_is_old_is_removed(self, home: BlobHome) -> None:
        """Contract: blobs that were stored before the time are removed; repeating it changes nothing."""
        old, young = await self.stored(home, START, b"old", b"young")
        await self.stored(home, START + DAY, b"young")
        for _ in range(2):
            await home.remove([old, young, name_of(b"never stored")], START + DAY / 2)
            assert set(await home.get([old, young])) == {young}
        await home.remove([young], START + 3 * DAY)
        assert await self.count(home) == 0

    async def test_what_is_stored_again_meanwhile_stays(self, home: BlobHome, place: Path) -> None:
        """Contract: a blob that is stored while another process removes it is there afterwards."""
        other = await self.opened(place)
        for turn in range(10):
            at = START + turn * 2 * DAY
            [name] = await self.stored(home, at, b"wanted")
            await asyncio.gather(home.remove([name], at + DAY), self.stored(other, at + DAY, b"wanted"))
            assert set(await home.get([name])) == {name}, f"gone in turn {turn}"
        await other.close()

    async def test_old_blobs_are_listed_in_pages(self, home: BlobHome) -> None:
        """Contract: every old blob is listed, no young one is, and the cursor ends, however often blobs were stored."""
        names = await self.stored(home, START, *(b"old %d" % number for number in range(50)))
        await self.stored(home, START + DAY, *(b"young %d" % number for number in range(50)))
        found, after, pages = set[str](), "", 0
        while True:
            page = await home.old(after, START + DAY / 2, 7)
            found.update(page.names)
            pages += 1
            after = page.next
            if not after:
                break
        assert found == set(names)
        assert pages > 1

    async def test_a_blob_that_is_stored_often_is_kept_once(self, home: BlobHome) -> None:
        """Contract: a sweep leaves one readable copy of a blob that was stored repeatedly."""
        name = name_of(b"often")
        for day in range(5):
            await self.stored(home, START + day * DAY, b"often")
        await home.old("", START + 4 * DAY, 1)
        assert await self.count(home) == 1
        assert dict(await home.get([name])) == {name: b"often"}
