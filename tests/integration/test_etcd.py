"""Leases by etcd, on real servers: what people get wrong, restarts, batches, and the watch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import App, step, workflow
from holdfast.adapters.etcd import Connection, EtcdGrants
from holdfast.adapters.etcd.connection import rpc
from holdfast.adapters.etcd.keys import below
from holdfast.adapters.leases import Endpoints
from holdfast.client.inspect.managers import lease_findings
from holdfast.config import Configuration, LeaseSettings
from holdfast.errors import StoreUnavailable
from holdfast.ports.grants import Grant, OwnedBy
from holdfast.ports.store import Store
from holdfast.stores import lease_service_report, open_grants, open_store
from tests.chaos.leased_fleet import Cluster
from tests.support import etcd
from tests.support.etcd_guard import EtcdServer
from tests.support.grants import Stage
from tests.support.guard import free_port
from tests.support.managers import CERTIFICATE, PRIVATE_KEY, TTL, refused, until


def settings(*addresses: str, **options: str) -> LeaseSettings:
    return LeaseSettings(type="etcd", endpoints=addresses, ttl=TTL, **options)  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    """One of the test's own."""
    made = EtcdServer(tmp_path)
    made.start()
    yield made
    made.stop()


# -- opening -----------------------------------------------------------------------------------------------------------


async def test_an_endpoint_that_answers_something_else_is_refused() -> None:
    """Contract: a web server is no etcd."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert "is not etcd" in await refused(settings(address))


@pytest.mark.parametrize("address", ["etcd-1:2379", "http://", "ftp://host:1", "http://host:1/path", "http://host:x"])
async def test_a_wrong_address_is_refused(address: str) -> None:
    """Contract: the error shows one that is right."""
    assert 'such as "http://etcd-1:2379"' in await refused(settings(address))


async def test_a_prefix_that_other_software_uses_is_refused() -> None:
    """Contract: the error names the key; nothing is written."""
    prefix = etcd.new_prefix()
    connection = Connection(etcd.endpoints())
    connection.call("KVStub", "Put", rpc.PutRequest(key=f"{prefix}/registry/pods".encode(), value=b"x"))
    told = await refused(settings(*etcd.endpoints().addresses, prefix=prefix))
    assert "used by other software" in told
    assert f"{prefix}/registry/pods" in told
    connection.close()


async def test_a_member_that_waits_for_the_others_is_refused(tmp_path: Path) -> None:
    """Contract: the first of three to start does not listen before there is a quorum; the error names all three."""
    ports = {name: free_port() for name in ("one", "two", "three")}
    alone = EtcdServer(tmp_path, name="one", peer_port=ports["one"], peers=ports)
    alone.start(is_waited_for=False)
    try:
        addresses = [alone.address, *(f"http://127.0.0.1:{free_port()}" for _ in range(2))]
        told = await refused(settings(*addresses))
        assert "etcd does not answer" in told
        assert all(f"{address}: " in told for address in addresses)
    finally:
        alone.stop()


async def test_members_without_quorum_are_refused(tmp_path: Path) -> None:
    """Contract: one of three is left and answers, and the error says that there is no quorum."""
    cluster = Cluster(tmp_path, "etcd")
    try:
        await cluster.start()
        for member in cluster.members[1:]:
            member.stop()
        assert "the cluster has no quorum. Start the other members" in await refused(settings(*cluster.addresses))
    finally:
        cluster.stop()


def with_users(server: EtcdServer, **roles: str) -> None:
    """The server wants a login from now on. Each user has a role that may read and write below a prefix; that of root
    may do everything. All have the same password."""
    connection = Connection(Endpoints(addresses=(server.address,)))
    for name, prefix in {"root": "", **roles}.items():
        connection.call("AuthStub", "UserAdd", rpc.AuthUserAddRequest(name=name, password="hunter2"))
        connection.call("AuthStub", "RoleAdd", rpc.AuthRoleAddRequest(name=name))
        connection.call("AuthStub", "UserGrantRole", rpc.AuthUserGrantRoleRequest(user=name, role=name))
        if prefix:
            span = below(prefix.encode())
            may = rpc.Permission(permType=rpc.Permission.READWRITE, key=span.key, range_end=span.range_end)
            connection.call("AuthStub", "RoleGrantPermission", rpc.AuthRoleGrantPermissionRequest(name=name, perm=may))
    connection.call("AuthStub", "AuthEnable", rpc.AuthEnableRequest())
    connection.close()


async def test_a_user_of_the_prefix_alone_is_enough(server: EtcdServer, tmp_path: Path) -> None:
    """Contract: what the guide grants to the role is all that workers and `doctor` need; another prefix is refused, and
    the error says what the user needs."""
    with_users(server, shop="shop/leases/")
    password = tmp_path / "password"
    password.write_text("hunter2")
    login = {"user": "shop", "password_file": str(password)}
    told = await refused(settings(server.address, prefix="other", **login))
    assert "The user needs to read and write below the prefix" in told
    given = settings(server.address, prefix="shop/leases", **login)
    app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[work], config=Configuration(leases=given))
    async with app.worker(id="w1"):
        assert await (await app.start(work(1))).result("30s") == 2
        report = await lease_service_report(given, await app.client(), most=10)
        assert (report.problem, [one.worker for one in report.holders]) == ("", ["w1"])


async def test_a_login_is_made_and_made_again(server: EtcdServer, tmp_path: Path) -> None:
    """Contract: user and password are needed, checked, and used anew when the token has run out."""
    with_users(server)
    password = tmp_path / "password"
    assert "requires a login" in await refused(settings(server.address))
    assert "cannot be read" in await refused(settings(server.address, user="root", password_file=str(password)))
    password.write_text("wrong\n")
    told = await refused(settings(server.address, user="root", password_file=str(password)))
    assert "User or password are wrong" in told
    assert "hunter2" not in told
    password.write_text("hunter2\n")
    grants = await open_grants(settings(server.address, user="root", password_file=str(password)), TTL)
    assert isinstance(grants, EtcdGrants)
    assert isinstance(await grants.acquire("r", "w1", TTL), Grant)
    server.stop()
    server.start()  # it has forgotten its tokens

    async def is_granted() -> bool:
        try:
            return isinstance(await grants.acquire("s", "w1", TTL), Grant)
        except StoreUnavailable:
            return False

    await until(is_granted)
    grants.heartbeat("w1", TTL)
    await grants.close()


async def test_tls_has_to_fit(tmp_path: Path) -> None:
    """Contract: https with the right authority works; without it, or without TLS, the error says so."""
    options = [f"--cert-file={CERTIFICATE}", f"--key-file={PRIVATE_KEY}"]
    server = EtcdServer(tmp_path, scheme="https", options=options)
    server.start()
    try:
        grants = await open_grants(settings(server.address, ca=CERTIFICATE), TTL)
        assert grants is not None
        assert isinstance(await grants.acquire("r", "w1", TTL), Grant)
        await grants.close()
        assert "TLS failed" in await refused(settings(server.address))
        assert "TLS" in await refused(settings(server.address.replace("https", "http")))
        assert "cannot be read" in await refused(settings(server.address, ca=str(tmp_path / "absent.pem")))
    finally:
        server.stop()


# -- granting ----------------------------------------------------------------------------------------------------------


async def test_hundreds_are_asked_for_in_a_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a transaction for each hundred, whoever has the runs; and one more if the worker has come back, and
    had them before."""
    prefix = etcd.new_prefix()
    grants, later = etcd.new_grants(prefix=prefix), etcd.new_grants(prefix=prefix)
    asked: list[str] = []
    call = Connection.call

    def counted(self: Connection, stub: str, method: str, request: object, **_: float) -> object:
        asked.append(method)
        return call(self, stub, method, request)

    monkeypatch.setattr(Connection, "call", counted)
    runs = [f"run/{number} ü" for number in range(250)]
    answers = await grants.acquire_many(runs, "w1", TTL)
    assert all(isinstance(answer, Grant) for answer in answers.values())
    assert asked == ["LeaseGrant", "Txn", "Txn", "Txn"]
    asked.clear()
    refusals = await grants.acquire_many(runs, "w2", TTL)
    assert {answer.worker for answer in refusals.values() if isinstance(answer, OwnedBy)} == {"w1"}
    assert asked.count("Txn") == 3
    assert asked.count("LeaseTimeToLive") == 3
    asked.clear()
    again = await later.acquire_many(runs, "w1", TTL)
    assert all(isinstance(answer, Grant) for answer in again.values())
    assert sorted(asked) == ["LeaseGrant", *["Txn"] * 6]
    assert list(await grants.release_all("w1")) == []
    asked.clear()
    assert sorted(await later.release_all("w1")) == sorted(runs)
    assert asked == ["LeaseTimeToLive", "LeaseRevoke"]
    await grants.close()
    await later.close()


async def test_what_went_away_unseen_is_told_when_the_watch_is_back(server: EtcdServer) -> None:
    """Contract: a run that was released while the watch had no connection is told of, once it has one; likewise behind
    a compaction, since a listing comes before every watch."""
    grants = EtcdGrants(Endpoints(addresses=(server.address,)), prefix="p", ttl=TTL)
    told: list[str] = []

    async def listen() -> None:
        while True:
            try:
                async for run in grants.orphans():
                    told.append(run)  # noqa: PERF401 - it never ends
            except StoreUnavailable:
                continue

    await grants.acquire_many(["r", "s", "t"], "w1", timedelta(seconds=60))
    listening = asyncio.create_task(listen())

    async def heard(*runs: str) -> None:
        async def are_told() -> bool:
            return set(runs) <= set(told)

        await until(are_told)

    await grants.acquire("first", "w1", TTL)

    async def is_listening() -> bool:
        await grants.acquire("first", "w1", TTL)
        await grants.release("first", "w1")
        return "first" in told

    await until(is_listening)
    server.stop()
    server.start()
    await grants.release("r", "w1")
    await heard("r")
    told.clear()
    answer = await asyncio.to_thread(grants._connection.call, "KVStub", "Range", rpc.RangeRequest(key=b"p"))
    compaction = rpc.CompactionRequest(revision=answer.header.revision)
    await asyncio.to_thread(grants._connection.call, "KVStub", "Compact", compaction)
    server.stop()
    server.start()
    await grants.release("s", "w1")
    await heard("s")
    listening.cancel()
    await grants.close()


async def test_doctor_names_manager_members_holders_and_disagreements(tmp_path: Path) -> None:
    """Contract: who answers, who holds what, a clock that is ahead, a run that another worker holds in the store."""
    clock = etcd.PassingClock()
    grants = etcd.new_grants(clock)
    store = await open_store(f"sqlite:///{tmp_path / 'a.db'}")
    stage = Stage()
    app = App(workflows=[stage.work], store=store)
    async with app.worker(id="w1", ttl="60s"):
        run = await app.start(stage.work(), id="shared")
        await until(lambda: _is_held(store, run.id))
        clock.set(clock.now() + timedelta(minutes=5))
        grants.heartbeat("w2", TTL)
        await grants.acquire_many(["shared", "other"], "w2", TTL)
        found = [f"{one.check} {one.state}: {one.text}" async for one in lease_findings(grants, store)]
        address = etcd.endpoints().addresses[0]
        assert found[0].startswith(f"leases ok: etcd at {address}: etcd 3.5")
        assert found[0].endswith("leader")
        assert found[1] == "leases ok: known there: w2 (2 runs)"
        assert found[2].startswith("clock warning: the clock of worker w2 is 4 min 5")
        assert found[3] == "leases warning: run shared: granted to w2, held by w1 in the store"
        stage.leave.set()
        assert await run.result("30s") == 1
    await store.close()
    await grants.close()


async def _is_held(store: Store, run: str) -> bool:
    return await store.lease(run) is not None


@step
async def doubled(number: int) -> int:
    return number * 2


@workflow
async def work(number: int) -> int:
    return await doubled(number)
