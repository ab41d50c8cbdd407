"""Blobs: immutable bytes named by their SHA-256."""

from __future__ import annotations

from hashlib import sha256

import pytest

from holdfast.errors import BlobNotFound
from holdfast.ports.blobs import Stub
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import World

UNKNOWN = "0" * 64
MARK = 2**63 - 1


class BlobsSuite(Suite):
    """Blobs: immutable bytes named by their SHA-256."""

    @pytest.mark.parametrize(
        "data", [b"", b"x", bytes(range(256)), b"\0" * 1_000_000], ids=["none", "one", "all", "many"]
    )
    @shows("stepflow.B1", "stepflow.B2")
    async def test_bytes_come_back(self, world: World, data: bytes) -> None:
        """Contract: the name is the SHA-256 of the bytes, in hex; the bytes come back unchanged."""
        name = await world.store.put_blob(data)
        assert name == sha256(data).hexdigest()
        assert await world.store.get_blob(name) == data

    async def test_the_same_bytes_have_one_name(self, world: World) -> None:
        """Contract: storing them again changes nothing."""
        first = await world.store.put_blob(b"same")
        assert await world.store.put_blob(b"same") == first
        assert await world.store.get_blob(first) == b"same"

    @shows("stepflow.B2")
    @pytest.mark.parametrize("name", [UNKNOWN, "", "not a name", "../../etc/passwd"])
    async def test_a_missing_blob_is_an_error(self, world: World, name: str) -> None:
        """Contract: raises BlobNotFound, also for an invalid name."""
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(name)

    async def test_several_blobs_at_once(self, world: World) -> None:
        """Contract: returns all of them by name; asking for none returns none."""
        names = [await world.store.put_blob(b"%d" % count) for count in range(5)]
        found = await world.store.get_blobs([*names, names[0]])
        assert dict(found) == {name: b"%d" % count for count, name in enumerate(names)}
        assert dict(await world.store.get_blobs([])) == {}

    async def test_every_one_of_several_must_be_there(self, world: World) -> None:
        """Contract: one missing name fails the call."""
        name = await world.store.put_blob(b"here")
        with pytest.raises(BlobNotFound):
            await world.store.get_blobs([name, UNKNOWN])

    async def test_a_store_says_which_blobs_it_knows(self, world: World) -> None:
        """Contract: returns the names that have a blob or a stub; invalid names are not among them."""
        names = [await world.store.put_blob(b"%d" % count) for count in range(300)]
        stub = sha256(b"elsewhere").hexdigest()
        await world.store.put_blob(Stub(stub, 9))
        assert await world.store.known_blobs([UNKNOWN, *names, stub, "../x", names[0]]) == {*names, stub}
        assert await world.store.known_blobs([]) == set()

    async def test_a_store_keeps_its_marks(self, world: World) -> None:
        """Contract: a mark is 0 until one is given; the first one given stays; each kind is separate."""
        assert await world.store.mark("folder") == 0
        assert await world.store.mark("folder", MARK) == MARK
        assert await world.store.mark("leases") == 0
        assert await world.store.mark("leases", 7) == 7
        assert await world.store.mark("folder", 1) == MARK
        assert await world.store.mark("folder") == MARK
