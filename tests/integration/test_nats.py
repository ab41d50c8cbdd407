"""Leases by NATS, on real servers: what people get wrong, restarts, batches, the watch, and what is left behind."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast.adapters.leases import Endpoints
from holdfast.adapters.nats import NatsGrants
from holdfast.adapters.nats import watch as watching
from holdfast.adapters.nats.bucket import Bucket
from holdfast.client.inspect.managers import lease_findings
from holdfast.config import Configuration, LeaseSettings
from holdfast.errors import StoreUnavailable
from holdfast.ports.grants import Grant, OwnedBy
from holdfast.stores import lease_service_report, open_grants, open_store
from tests.integration.test_etcd import work
from tests.support import nats
from tests.support.etcd import new_prefix
from tests.support.guard import free_port
from tests.support.managers import CERTIFICATE, PRIVATE_KEY, TTL, refused, until
from tests.support.nats_guard import NatsServer


def settings(*addresses: str, **options: Any) -> LeaseSettings:
    return LeaseSettings(type="nats", endpoints=addresses, ttl=TTL, **options)


@asynccontextmanager
async def server_with(folder: Path, **options: Any) -> AsyncIterator[NatsServer]:
    """A server of the test's own."""
    made = NatsServer(folder, options=options)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One that the test may stop."""
    made = NatsServer(tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def bucket() -> str:
    """One of the test's own, on the server of this run."""
    return nats.new_bucket()


# -- opening -----------------------------------------------------------------------------------------------------------


async def test_an_endpoint_that_answers_something_else_is_refused() -> None:
    """Contract: a web server is not NATS, and neither is one that says nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read(1000)
        writer.close()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.close()

    for handler in (answer, stay_silent):
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            address = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            assert "is not NATS" in await refused(settings(address))


@pytest.mark.parametrize("address", ["nats-1:4222", "nats://", "http://host:1", "nats://host:1/path", "nats://host:x"])
async def test_a_wrong_address_is_refused(address: str) -> None:
    """Contract: the error shows one that is right."""
    assert 'such as "nats://nats-1:4222"' in await refused(settings(address))


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    """Contract: the error says what is off."""
    server = NatsServer(tmp_path, options={"jetstream": False})
    server.start()
    try:
        assert "JetStream" in await refused(settings(server.address))
    finally:
        server.stop()


async def test_servers_without_quorum_are_refused(tmp_path: Path) -> None:
    """Contract: one of three answers, and there is no leader."""
    ports = {name: free_port() for name in ("one", "two", "three")}
    alone = NatsServer(tmp_path, name="one", peer_port=ports["one"], peers=ports)
    alone.start()
    try:
        assert "no quorum" in await refused(settings(alone.address, replicas=3))
    finally:
        alone.stop()


async def test_more_replicas_than_servers_are_refused(bucket: str) -> None:
    """Contract: the error names the setting; no bucket is left behind."""
    assert "[leases] replicas" in await refused(settings(*nats.endpoints().addresses, bucket=bucket, replicas=3))
    grants = nats.new_grants(bucket=bucket)
    assert await grants._thread.run(grants._bucket.look("-")) is None
    await grants.close()


@pytest.mark.parametrize("is_suited", [True, False])
async def test_a_bucket_that_other_software_uses_is_refused(bucket: str, is_suited: bool) -> None:
    """Contract: the error names the bucket, and the key if its keys could run out; nothing is written."""
    grants = nats.new_grants(bucket=bucket)
    kept: Bucket = grants._bucket

    async def use() -> None:
        if is_suited:
            await kept.make()
            await kept.put("session.4711", b"x", last=0)
        else:
            given = {"name": f"KV_{bucket}", "subjects": [f"$KV.{bucket}.>"]}
            await kept._ask(f"$JS.API.STREAM.CREATE.KV_{bucket}", given)

    await grants._thread.run(use())
    told = await refused(settings(*nats.endpoints().addresses, bucket=bucket))
    assert f"{bucket!r} is used by other software" in told
    assert ("session.4711" in told) == is_suited
    await grants.close()


@pytest.mark.parametrize("kind", ["user", "token"])
async def test_a_login_is_made(tmp_path: Path, kind: str) -> None:
    """Contract: user and password, or a token, are needed and checked; secrets are not shown."""
    wanted = {"user": "shop", "password": "hunter2"} if kind == "user" else {"token": "hunter2"}
    secret = tmp_path / "secret"
    given: dict[str, Any] = {"password_file": str(secret), "user": "shop"}
    if kind == "token":
        given = {"token_file": str(secret)}
    async with server_with(tmp_path, authorization=wanted) as server:
        assert "The login failed" in await refused(settings(server.address))
        assert "cannot be read" in await refused(settings(server.address, **given))
        secret.write_text("wrong\n")
        told = await refused(settings(server.address, **given))
        assert "The login failed" in told
        assert "hunter2" not in told
        secret.write_text("hunter2\n")
        grants = await open_grants(settings(server.address, **given), TTL)
        assert grants is not None
        assert isinstance(await grants.acquire("r", "w1", TTL), Grant)
        await grants.close()


async def test_a_user_with_the_rights_of_the_guide_is_enough(tmp_path: Path) -> None:
    """Contract: what the guide lets the user publish and subscribe to is all that workers, the watch and `doctor` need.
    The bucket is made by this user too."""
    page = (Path(__file__).parents[2] / "docs" / "guides" / "leases.md").read_text(encoding="utf-8")
    said = page.partition("Its user publishes to")[2].partition(".\n")[0]
    publishes, _, subscribes = said.partition("subscribes to")
    rights = {"publish": re.findall("`(.+?)`", publishes), "subscribe": re.findall("`(.+?)`", subscribes)}
    assert all(rights.values())
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    user = {"user": "shop", "password": "hunter2", "permissions": rights}
    async with server_with(tmp_path, authorization={"users": [user]}) as server:
        given = settings(server.address, user="shop", password_file=str(secret))
        app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[work], config=Configuration(leases=given))
        async with app.worker(id="w1"):
            assert await (await app.start(work(1))).result("30s") == 2
            report = await lease_service_report(given, await app.client(), most=10)
            assert (report.problem, [one.worker for one in report.holders]) == ("", ["w1"])
            grants = await open_grants(given, TTL)
            assert grants is not None
            stream = grants.orphans()
            assert stream is not None
            await grants.acquire("r", "w2", TTL)
            told = asyncio.ensure_future(anext(stream))
            async with asyncio.timeout(20):
                while not told.done():
                    await grants.acquire("r", "w2", TTL)
                    await grants.release("r", "w2")
                    await asyncio.wait([told], timeout=0.1)
            await stream.aclose()  # type: ignore[attr-defined]
            await grants.close()


async def test_a_credentials_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Contract: with its name, before any server is asked."""
    address = f"nats://127.0.0.1:{free_port()}"
    assert "absent.creds" in await refused(settings(address, credentials=str(tmp_path / "absent.creds")))


async def test_tls_has_to_fit(tmp_path: Path) -> None:
    """Contract: with the right authority it works; without it the error says so; a password never goes to a server
    that was to speak TLS and does not."""
    ca = CERTIFICATE
    async with server_with(tmp_path, tls={"cert_file": CERTIFICATE, "key_file": PRIVATE_KEY}) as server:
        secure = server.address.replace("nats:", "tls:")
        grants = await open_grants(settings(secure, ca=ca), TTL)
        assert grants is not None
        assert isinstance(await grants.acquire("r", "w1", TTL), Grant)
        await grants.close()
        assert "TLS failed" in await refused(settings(secure))
        assert "cannot be read" in await refused(settings(secure, ca=str(tmp_path / "absent.pem")))
        assert "is not in PEM format" in await refused(settings(secure, ca=str(tmp_path / "one.conf")))
    heard = bytearray()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n')
        await writer.drain()
        heard.extend(await reader.read(1000))
        writer.close()

    (tmp_path / "secret").write_text("hunter2")
    plain = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with plain:
        address = f"tls://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        told = await refused(settings(address, ca=ca, user="me", password_file=str(tmp_path / "secret")))
    assert "does not speak TLS" in told
    assert b"hunter2" not in heard


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_server_that_hangs_up_after_the_handshake_may_want_a_certificate(how: str) -> None:
    """Contract: under TLS 1.3 the handshake is over when the server looks for our certificate, and its reason may be
    lost with the connection. The error says that TLS failed all the same."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, PRIVATE_KEY)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"tls_required":true}\r\n')
        await writer.drain()
        with suppress(OSError):
            await writer.start_tls(context)
            if how == "closes":
                writer.close()
            else:
                writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert "TLS failed" in await refused(settings(address, ca=CERTIFICATE))


@pytest.mark.parametrize("how", ["closes", "resets"])
async def test_a_refused_login_is_named_though_the_server_only_hangs_up(how: str) -> None:
    """Contract: the server's reason may be lost with the connection. The error says that the login failed all the
    same."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n')
        await reader.readline()
        if how == "closes":
            writer.close()
        else:
            writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        assert "The login failed" in await refused(settings(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"))


# -- granting ----------------------------------------------------------------------------------------------------------


async def test_a_late_heartbeat_begins_a_new_incarnation() -> None:
    """Contract: what ran out stays so, though no other worker took it, until the worker asks for it again."""
    grants = nats.new_grants()
    lease = timedelta(seconds=2)
    assert isinstance(await grants.acquire("r", "w1", lease), Grant)

    async def is_out() -> bool:
        return await grants.get("r") is None

    await until(is_out)
    grants.heartbeat("w1", lease)
    assert await grants.get("r") is None
    assert isinstance(await grants.acquire("r", "w1", lease), Grant)
    await grants.close()


async def test_hundreds_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: whatever the ids are made of, one message for each free run and none for waiting; what a dead worker
    left is taken over in the same way by a worker that watched."""
    grants, other = (nats.new_grants(prefix=prefix) for prefix in [new_prefix()] * 2)
    runs = [f"run/{number}.* > ü\n" for number in range(250)]
    assert all(isinstance(one, Grant) for one in (await grants.acquire_many(runs, "w1", TTL)).values())
    refusals = await other.acquire_many(runs, "w2", TTL)
    assert {one.worker for one in refusals.values() if isinstance(one, OwnedBy)} == {"w1"}
    stream = other.orphans()
    listening = asyncio.ensure_future(anext(stream))

    async def is_seen() -> bool:
        return len(other._view._held) == len(runs)

    await until(is_seen)
    assert sorted(await grants.release_all("w1")) == sorted(runs)
    assert await listening in runs

    async def is_free() -> bool:
        return len(other._view._free) == len(runs) and not other._view._left  # it has heard of every marker

    await until(is_free)
    asked: list[str] = []
    put, get = Bucket.put, Bucket.get

    async def counted_put(self: Bucket, key: str, value: bytes, **options: int) -> int:
        asked.append("put")
        return await put(self, key, value, **options)

    async def counted_get(self: Bucket, key: str) -> Any:
        asked.append("get")
        return await get(self, key)

    monkeypatch.setattr(Bucket, "put", counted_put)
    monkeypatch.setattr(Bucket, "get", counted_get)
    answers = await other.acquire_many(runs, "w2", TTL)
    assert all(isinstance(one, Grant) for one in answers.values())
    assert asked.count("put") <= len(runs) + 1
    assert "get" not in asked
    await stream.aclose()  # type: ignore[attr-defined]
    await grants.close()
    await other.close()


async def test_what_went_away_unseen_is_told_when_the_watch_is_back(server: NatsServer) -> None:
    """Contract: a run that was released while the watch had no connection is told of, once it has one."""
    grants = NatsGrants(Endpoints(addresses=(server.address,)), prefix="p", ttl=TTL)
    told: list[str] = []

    async def listen() -> None:
        while True:
            try:
                async for run in grants.orphans():
                    told.append(run)  # noqa: PERF401 - it never ends
            except StoreUnavailable:
                continue

    await grants.acquire_many(["r", "s"], "w1", timedelta(seconds=60))
    listening = asyncio.create_task(listen())

    async def is_listening() -> bool:
        await grants.acquire("first", "w1", TTL)
        await grants.release("first", "w1")
        return "first" in told

    await until(is_listening)
    server.stop()
    server.start()
    await grants.release("r", "w1")

    async def is_told() -> bool:
        return "r" in told

    await until(is_told)
    assert "s" not in told
    listening.cancel()
    await grants.close()


async def test_without_markers_the_listing_tells(bucket: str) -> None:
    """Contract: a bucket that an administrator made without markers sends nothing when a heartbeat runs out: the runs
    of that worker are told of all the same."""
    grants, dying = (nats.new_grants(bucket=bucket, prefix="p") for _ in range(2))

    async def make() -> None:
        given = {"name": f"KV_{bucket}", "subjects": [f"$KV.{bucket}.>"], "max_msgs_per_subject": 1}
        given |= {"allow_msg_ttl": True, "allow_rollup_hdrs": True}
        await grants._bucket._ask(f"$JS.API.STREAM.CREATE.KV_{bucket}", given)

    await grants._thread.run(make())
    await grants.open()
    assert isinstance(await dying.acquire("r", "w2", timedelta(seconds=2)), Grant)
    async with asyncio.timeout(20):
        stream = grants.orphans()
        assert await anext(stream) == "r"
    await stream.aclose()  # type: ignore[attr-defined]
    await grants.close()
    await dying.close()


async def test_what_a_dead_worker_left_behind_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: the key of a run that no worker takes over, because it has ended, does not stay forever."""
    monkeypatch.setattr(watching, "FORGET_AFTER", 0.0)
    prefix = new_prefix()
    grants, dying = (nats.new_grants(prefix=prefix) for _ in range(2))
    assert isinstance(await dying.acquire("r", "w2", timedelta(seconds=2)), Grant)
    stream = grants.orphans()
    async with asyncio.timeout(20):
        assert await anext(stream) == "r"

    async def is_cleared() -> bool:
        found = await grants._thread.run(grants._bucket.get(grants._keys.run("r")))
        return found is None or found.is_marker

    await until(is_cleared)
    await stream.aclose()  # type: ignore[attr-defined]
    await grants.close()
    await dying.close()


async def test_doctor_names_manager_members_and_holders(tmp_path: Path) -> None:
    """Contract: who answers, who does not, and who holds what."""
    good = nats.endpoints().addresses[0]
    dead = f"nats://127.0.0.1:{free_port()}"
    grants = NatsGrants(Endpoints(addresses=(good, dead)), bucket=nats.BUCKET, prefix=new_prefix(), ttl=TTL)
    store = await open_store(f"sqlite:///{tmp_path / 'a.db'}")
    grants.heartbeat("w2", TTL)
    await grants.acquire_many(["shared", "other"], "w2", TTL)
    found = [f"{one.check} {one.state}: {one.text}" async for one in lease_findings(grants, store)]
    assert found[0].startswith(f"leases ok: NATS at {good}: NATS 2.")
    assert found[0].endswith("leader")
    assert found[1].startswith(f"leases problem: NATS at {dead}: ")
    assert found[2] == "leases ok: known there: w2 (2 runs)"
    await store.close()
    await grants.close()
