"""A store whose large payloads are in a folder: whoever does not see it hears of it before anything is written."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import App, Signal, step, workflow
from holdfast.adapters.blobs.label import LABEL
from holdfast.cli.commands import compact, gc
from holdfast.client.verification import verify_run
from holdfast.config import Configuration, StoreSettings
from holdfast.errors import RunNotFound, StoreRefused, StoreUnavailable
from holdfast.ports.condition import Diagnosable
from holdfast.ports.runs import Filter
from holdfast.stores import open_store
from tests.support.postgres import clean_url

go = Signal[str]("go")
SIZE = 300_000
LARGE = b"x" * SIZE


@step
async def text_of(size: int) -> str:
    return "x" * size


@workflow
async def measured(text: str) -> int:
    return len(text)


@workflow
async def long(steps: int, size: int) -> int:
    total = 0
    for number in range(steps):
        total += len(await text_of(number))
    return total + len(await text_of(size)) + len(await go.wait())


def files_below(path: Path) -> list[Path]:
    """All but those of SQLite."""
    return sorted(file for file in path.rglob("*") if ".db" not in file.name)


class Shop:
    """The processes of one deployment: they share a store, and those that were told of it a folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def settings(self, folder: Path | None) -> StoreSettings:
        if folder is None:
            return StoreSettings(url=self.url)
        return StoreSettings(url=self.url, blobs=folder.as_uri(), shared=True)

    def app(self, folder: Path | None) -> App:
        config = Configuration(store=self.settings(folder))
        return App(self.url, workflows=[measured, long], snapshot_every=0, config=config)

    @property
    def told(self) -> App:
        """A process with the folder."""
        return self.app(self.folder)

    @property
    def untold(self) -> App:
        """One without."""
        return self.app(None)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    url = f"sqlite:///{tmp_path / 'a.db'}" if request.param == "sqlite" else clean_url()
    return Shop(url, tmp_path / "blobs")


async def test_a_worker_without_the_folder_does_not_begin(shop: Shop) -> None:
    """Contract: it would pause runs as damaged that are not. It is refused, and nobody knows of it."""
    async with shop.told as app:
        await app.start(measured("x" * SIZE), id="r")
    with pytest.raises(StoreRefused, match="folder"):
        async with shop.untold.worker():
            pass
    async with shop.told.worker() as worker:
        assert [row.worker for row in await worker.store.workers() if row.is_live] == [worker.options.id]
        assert await (await shop.told.get("r", measured)).result("30s") == SIZE


async def test_a_client_without_the_folder_stores_nothing_large(shop: Shop) -> None:
    """Contract: what needs no folder is done; what does is refused, with nothing written."""
    async with shop.told:
        pass
    async with shop.untold as app:
        await app.start(measured("short"), id="small")
        with pytest.raises(StoreRefused, match="blobs"):
            await app.start(measured("x" * SIZE), id="large")
        with pytest.raises(RunNotFound):
            await app.get("large")
        assert [view.id async for view in app.runs()] == ["small"]


async def test_a_client_without_the_folder_is_told_where_a_payload_is(shop: Shop) -> None:
    """Contract: an error that says what to name, never a payload that seems lost."""
    async with shop.told as app:
        name = await (await app.client()).store.put_blob(LARGE)
    async with shop.untold as app:
        store = (await app.client()).store
        with pytest.raises(StoreRefused, match="blobs"):
            await store.get_blob(name)
        with pytest.raises(StoreRefused, match="blobs"):
            await store.get_blobs([name])


async def test_compacting_without_the_folder_is_refused(shop: Shop) -> None:
    """Contract: `holdfast compact --url` cannot know what an app says in its code; the journal stays as it was, and
    the run goes on. Nor does `gc` take anything."""
    app = shop.told
    async with app.worker():
        run = await app.start(long(20, SIZE), id="r")
        async with asyncio.timeout(30):
            while "signal" not in (await run.view()).waiting:
                await run.wait("10ms")
    for command, arguments in ((compact.command, ["r"]), (gc.command, [])):
        answer = await asyncio.to_thread(CliRunner().invoke, command, [*arguments, "--url", shop.url])
        assert isinstance(answer.exception, StoreRefused), answer.output
    app = shop.told
    async with app.worker():
        run = await app.get("r", long)
        assert (await run.view()).turns == len(await (await app.client()).store.history("r"))
        await run.signal(go, "!")
        assert await run.result("30s") == sum(range(20)) + SIZE + 1


async def test_a_run_is_not_called_damaged_by_whoever_cannot_see_its_payloads(shop: Shop, tmp_path: Path) -> None:
    """Contract: `verify` says what keeps it from looking, never that the run does not hold."""
    async with shop.told as app:
        await app.start(measured("x" * SIZE), id="r")
        store = (await app.client()).store
        [row] = (await store.list(Filter())).runs
        assert (await verify_run(store, row)).problem == ""
        shop.folder.rename(tmp_path / "away")
        with pytest.raises(StoreUnavailable, match="mounted"):
            await verify_run(store, row)
    async with shop.untold as app:
        with pytest.raises(StoreRefused, match="folder"):
            await verify_run((await app.client()).store, row)


async def test_what_is_in_the_store_is_read_after_a_folder_was_named(shop: Shop) -> None:
    """Contract: a folder may be named later; payloads that are in the store stay there."""
    async with shop.untold as app:
        await app.start(measured("x" * SIZE), id="r")
    app = shop.told
    async with app.worker():
        assert await (await app.get("r", measured)).result("30s") == SIZE
        name = await (await app.client()).store.put_blob(LARGE)
        assert (shop.folder / name[:2] / name).is_file()


@pytest.mark.parametrize("what", ["another", "missing", "emptied"])
async def test_another_folder_is_refused(shop: Shop, tmp_path: Path, what: str) -> None:
    """Contract: a path that is wrong, or not mounted here, is refused before anything is written to it; it is not
    made either."""
    async with shop.told as app:
        name = await (await app.client()).store.put_blob(LARGE)
    folder = tmp_path / "other"
    if what == "emptied":
        folder.mkdir()
    elif what == "another":
        (folder / name[:2]).mkdir(parents=True)
        shutil.copy(shop.folder / name[:2] / name, folder / name[:2])
    before = files_below(tmp_path)
    with pytest.raises(StoreRefused, match="mounted"):
        await open_store(shop.url, shop.settings(folder))
    assert files_below(tmp_path) == before


async def test_a_folder_may_be_moved(shop: Shop, tmp_path: Path) -> None:
    """Contract: it is known by what lies in it, not by its path: hosts mount it where they like."""
    async with shop.told as app:
        name = await (await app.client()).store.put_blob(LARGE)
    shop.folder.rename(tmp_path / "moved")
    async with shop.app(tmp_path / "moved") as app:
        assert await (await app.client()).store.get_blob(name) == LARGE


async def test_two_stores_do_not_share_a_folder(shop: Shop, tmp_path: Path) -> None:
    """Contract: each would remove, as nobody's, what the other keeps. The second is refused."""
    async with shop.told as app:
        name = await (await app.client()).store.put_blob(LARGE)
    other = Shop(f"sqlite:///{tmp_path / 'other.db'}", shop.folder)
    with pytest.raises(StoreRefused, match="another store"):
        await open_store(other.url, other.settings(other.folder))
    async with other.untold as app:  # and it remembers no folder
        await app.start(measured("x" * SIZE), id="r")
    async with shop.told as app:
        assert await (await app.client()).store.get_blob(name) == LARGE


async def test_many_that_name_a_folder_for_the_first_time_agree(shop: Shop) -> None:
    """Contract: replicas that start together on a new store all use it; none is refused."""
    stores = await asyncio.gather(*(open_store(shop.url, shop.settings(shop.folder)) for _ in range(6)))
    try:
        name = await stores[0].put_blob(LARGE)
        assert [await store.get_blob(name) for store in stores] == [LARGE] * 6
        assert len({await store.mark("folder") for store in stores}) == 1
    finally:
        for store in stores:
            await store.close()


async def test_whoever_died_while_naming_a_folder_is_followed(shop: Shop) -> None:
    """Contract: the folder was marked and the store had not heard of it: the next one goes on from there."""
    store = await open_store(shop.url, shop.settings(None))
    shop.folder.mkdir()
    (shop.folder / LABEL).write_text(f"4711\n{store.url}\n")
    await store.close()
    async with shop.told as app:
        assert await (await app.client()).store.mark("folder") == 4711


async def test_a_folder_that_goes_away_is_waited_for(shop: Shop, tmp_path: Path) -> None:
    """Contract: unmounted under a live process, it is out of reach: nothing is stored in what lies there instead, and
    no payload counts as lost; when it is back, everything goes on."""
    async with shop.told as app:
        store = (await app.client()).store
        name = await store.put_blob(LARGE)
        shop.folder.rename(tmp_path / "away")
        for is_there in (False, True):
            if is_there:
                shop.folder.mkdir()
            with pytest.raises(StoreUnavailable, match="mounted"):
                await store.put_blob(b"other")
            with pytest.raises(StoreUnavailable, match="mounted"):
                await store.get_blob(name)
            with pytest.raises(StoreUnavailable, match="mounted"):
                await store.put_blob(LARGE)
        assert list(shop.folder.iterdir()) == []
        shop.folder.rmdir()
        (tmp_path / "away").rename(shop.folder)
        assert await store.get_blob(name) == LARGE


async def test_a_store_with_a_folder_is_examined_like_any_other(shop: Shop) -> None:
    """Contract: what `doctor` asks is answered through the folder too, by every Python's judgement of protocols."""
    async with shop.told as app:
        store = (await app.client()).store
        await app.start(measured("short"), id="r")
        assert isinstance(store, Diagnosable)
        assert all(inspect.getattr_static(store, verb, None) for verb in ("condition", "backlog"))
        assert [one.count for one in await store.backlog()] == [1]
        assert (await store.condition()).engine
