"""A store whose large payloads are in S3: a real server, and what people get wrong about it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import App, Fact, Hook, facts, step, workflow
from holdfast.adapters.blobs.housed_store import UNHEARD, with_home
from holdfast.adapters.blobs.label import LABEL
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.s3 import S3Home, home, parse_s3_address
from holdfast.cli.commands import doctor
from holdfast.client.verification import verify_run
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.extras import install_command
from holdfast.ports.runs import Filter
from holdfast.stores import open_store
from holdfast.upkeep.sweep import sweep
from tests.support import s3
from tests.support.faults import FaultyStore
from tests.support.managers import CERTIFICATE, PRIVATE_KEY
from tests.support.postgres import clean_url
from tests.support.world import START

pytestmark = pytest.mark.today
SIZE = 300_000
SKEWED = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@step
async def text_of(size: int) -> str:
    return "x" * size


@workflow
async def measured(text: str, size: int) -> int:
    return len(text) + len(await text_of(size))


async def objects(address: str) -> list[str]:
    """Keys below an address."""
    pages = [page async for page in s3.objects_below(address.partition("?")[0]).list()]
    return sorted(found["path"] for page in pages for found in page)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'a.db'}" if request.param == "sqlite" else clean_url()


async def test_an_app_keeps_its_blobs_in_a_bucket(url: str) -> None:
    """Contract: one line, on every store: large payloads are objects there, and the run verifies."""
    address = s3.new_prefix()
    app = App(url, workflows=[measured], blobs=address)
    async with app.worker():
        run = await app.start(measured("y" * SIZE, SIZE), id="r")
        assert await run.result("30s") == 2 * SIZE
        store = (await app.client()).store
        [row] = (await store.list(Filter())).runs
        assert (await verify_run(store, row)).problem == ""
        assert len(await objects(address)) == 3
        [changed, *_] = await objects(address)
        await s3.objects_below(address.partition("?")[0]).put_async(changed, b"other")
        assert changed.partition("/")[0] in (await verify_run(store, row)).problem


async def test_a_second_store_is_refused_and_a_process_without_the_bucket_too(tmp_path: Path) -> None:
    """Contract: as with a folder, before anything is written."""
    address = s3.new_prefix()
    mine = f"sqlite:///{tmp_path / 'mine.db'}"
    async with App(mine, blobs=address):
        pass
    with pytest.raises(StoreRefused, match="another store"):
        await open_store(f"sqlite:///{tmp_path / 'other.db'}", blobs=address)
    with pytest.raises(StoreRefused, match="not the home"):
        await open_store(mine, blobs=s3.new_prefix())
    app = App(mine, workflows=[measured])
    with pytest.raises(StoreRefused, match="bucket"):
        async with app.worker():
            pass
    assert await objects(address) == [LABEL]


async def test_a_bucket_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Contract: the error names it, nothing is made, and the store remembers no home."""
    store = f"sqlite:///{tmp_path / 'a.db'}"
    with pytest.raises(StoreRefused, match="there is no bucket 'absent'"):
        await open_store(store, blobs=s3.address("absent"))
    opened = await open_store(store)
    assert await opened.mark("folder") == 0
    await opened.close()
    with pytest.raises(StoreRefused, match="there is no bucket 'absent'"):
        await open_store(store, blobs=s3.address("absent"))


async def test_wrong_keys_are_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract: the error says what the role needs; neither it nor the log has the keys."""
    caplog.set_level(logging.DEBUG)
    address = s3.new_prefix()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with pytest.raises(StoreRefused, match="S3 refuses the keys") as refused:
        await open_store("memory://", blobs=address)
    assert "hunter2" not in f"{refused.value}{refused.value.__cause__!r}{caplog.text}"


@asynccontextmanager
async def something_else(
    *, is_secure: bool = False, status: bytes = b"200 OK", body: bytes = b"hello"
) -> AsyncIterator[str]:
    """A server that speaks HTTP and no S3; with TLS, under a certificate that nobody trusts."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if is_secure else None
    if context is not None:
        context.load_cert_chain(CERTIFICATE, PRIVATE_KEY)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_endpoint_that_answers_something_else_is_refused() -> None:
    """Contract: a web server is no S3; the error names the address, and blames no other store."""
    async with something_else() as endpoint:
        with pytest.raises(
            StoreRefused, match=r"in s3://bucket/part: holdfast-store there was not written by Holdfast"
        ):
            await open_store("memory://", blobs=f"s3://bucket/part?endpoint={endpoint}")


async def test_a_wrong_clock_is_told_apart_from_wrong_keys() -> None:
    """Contract: S3 refuses what is signed at another time. That is no matter of keys or roles."""
    async with something_else(status=b"403 Forbidden", body=SKEWED) as endpoint:
        with pytest.raises(StoreRefused, match=r"the clock of this machine differs .* Set the clock"):
            await open_store("memory://", blobs=f"s3://bucket/part?endpoint={endpoint}")


@pytest.mark.parametrize(
    ("asked", "speaks", "told"),
    [
        ("https", "http", "does not speak TLS"),
        ("http", "https", "expects TLS"),
        ("https", "https", "does not trust the server's certificate"),
    ],
)
async def test_tls_has_to_fit(asked: str, speaks: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: the error says what is wrong with it, not only that the request failed."""
    monkeypatch.setattr(home, "PATIENCE", timedelta(milliseconds=200))
    async with something_else(is_secure=speaks == "https") as endpoint:
        address = endpoint.replace("http:", f"{asked}:")
        with pytest.raises(StoreRefused, match=told):
            await open_store("memory://", blobs=f"s3://bucket/part?endpoint={address}")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_an_endpoint_that_does_not_answer_is_refused_in_time(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: after the patience of a request, with the reason."""
    monkeypatch.setattr(home, "PATIENCE", timedelta(milliseconds=200))
    async with asyncio.timeout(20):
        with pytest.raises(StoreRefused, match="Nothing listens there"):
            await open_store("memory://", blobs=f"s3://bucket/part?endpoint=http://127.0.0.1:{closed_port}")


@pytest.mark.parametrize("kind", ["versions", "locks"])
async def test_a_bucket_with_versions_or_locks_is_used_and_warned_of(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Contract: it works; the log, hooks and `doctor` say that what is removed stays as an old version."""
    bucket = await asyncio.to_thread(s3.new_bucket, is_versioned=kind == "versions", is_locked=kind == "locks")
    address, heard = s3.address(bucket, "part"), Heard()
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with App(url, blobs=address, hooks=[heard]) as app:
        store = (await app.client()).store
        name = await store.put_blob(b"x" * SIZE)
        assert await store.get_blob(name) == b"x" * SIZE
    assert "keeps versions" in caplog.text
    assert len(heard.warnings) == 1
    assert "keeps versions" in await asyncio.to_thread(_examined, url, address)


class Heard(Hook):
    """What a user's hook hears of the home."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def on(self, fact: Fact) -> None:
        if isinstance(fact, facts.StoreTrouble):
            self.warnings.append(str(fact.error))


async def test_versions_that_came_later_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: the label of the home is older than the versions and has none. The first blob that is stored tells,
    and `doctor` looks at what is there."""
    bucket = await asyncio.to_thread(s3.new_bucket)
    address, url = s3.address(bucket, "part"), f"sqlite:///{tmp_path / 'a.db'}"
    async with App(url, blobs=address) as app:
        store = (await app.client()).store
        assert "keeps versions" not in await asyncio.to_thread(_examined, url, address)
        await asyncio.to_thread(s3.keep_versions, bucket)
        await store.put_blob(b"x" * SIZE)
        assert caplog.text.count("keeps versions") == 1
        await store.put_blob(b"y" * SIZE)
        assert caplog.text.count("keeps versions") == 1
    assert "keeps versions" in await asyncio.to_thread(_examined, url, address)


def _examined(url: str, address: str) -> str:
    answer = CliRunner().invoke(doctor.command, ["--url", url], env={"HOLDFAST_STORE_BLOBS": address})
    return " ".join(answer.output.split())


class TestCollecting:
    """The bytes in S3 and the rows of the store: what goes when one knows of a blob and the other does not."""

    @pytest.fixture
    def address(self) -> str:
        return s3.new_prefix()

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock(START)

    @pytest.fixture
    def faulty(self, clock: VirtualClock) -> FaultyStore:
        return FaultyStore(MemoryStore(clock))

    async def test_what_its_writer_never_told_of_goes_with_a_sweep(
        self, address: str, clock: VirtualClock, faulty: FaultyStore
    ) -> None:
        """Contract: killed between upload and commit, a writer leaves only what a sweep takes an hour later."""
        store = with_home(faulty.store, S3Home(parse_s3_address(address)))
        faulty.fail("put_blob", 2)
        kept = await store.put_blob(b"kept")
        with pytest.raises(StoreUnavailable):
            await store.put_blob(b"lost")
        await sweep(store, None, timedelta(days=1))
        assert len(await objects(address)) == 2
        clock.advance(UNHEARD + timedelta(seconds=1))
        await store.put_blob(b"kept")
        await sweep(store, None, UNHEARD)
        assert {key.partition("/")[0] for key in await objects(address)} == {kept}
        assert await store.get_blob(kept) == b"kept"

    async def test_what_is_stored_while_it_is_collected_is_there_afterwards(
        self, address: str, clock: VirtualClock, faulty: FaultyStore
    ) -> None:
        """Contract: wherever the collector stands when a writer in another process stores the same bytes."""
        bucket = S3Home(parse_s3_address(address))
        mine = with_home(faulty.store, bucket)
        theirs = with_home(faulty.store, S3Home(parse_s3_address(address)))
        data = b"shared"
        name = sha256(data).hexdigest()
        for moment in ("put_blob", "collect", "known_blobs"):
            if moment == "known_blobs":  # of bytes that the store never heard of
                await bucket.put([(name, data)], clock.now())
            else:
                await mine.put_blob(data)
            clock.advance(timedelta(days=2))
            met: list[str] = []

            async def meet(verb: str, _: object, moment: str = moment, met: list[str] = met) -> None:
                if verb == moment and not met:
                    met.append(verb)
                    if verb == "put_blob":  # the bytes are there, and the store has not heard of them
                        await sweep(mine, None, timedelta(0))
                    else:
                        await theirs.put_blob(data)

            faulty.before = meet
            await (theirs.put_blob(data) if moment == "put_blob" else sweep(mine, None, timedelta(days=1)))
            faulty.before = None
            assert met == [moment]
            assert await mine.get_blob(name) == data
            clock.advance(timedelta(days=1, seconds=1))
            await sweep(mine, None, timedelta(days=1))
            assert await objects(address) == []


def test_a_missing_extra_names_what_to_install() -> None:
    """Contract: before anything is opened, with the command that brings it."""
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "import asyncio\n"
        "from holdfast.stores import open_store\n"
        "try: asyncio.run(open_store('memory://', blobs='s3://bucket'))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == (
        f"StoreRefused blobs in s3:// need obstore, which is not installed. Install it: {install_command('s3')}\n"
    )
