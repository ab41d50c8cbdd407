"""A prefix of a lease manager belongs to one store: a second one is refused, before it waits for runs of the first."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from holdfast import App
from holdfast.cli.commands.doctor import examine
from holdfast.config import Configuration
from holdfast.errors import StoreRefused
from tests.integration.test_etcd import work
from tests.support import etcd
from tests.support.managers import KINDS, Kind, leases_of


@pytest.mark.parametrize("kind", KINDS)
async def test_two_stores_under_one_prefix_are_refused(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: the worker of the second store does not start, and `doctor` says why; the first store's restarts."""
    config = Configuration(leases=leases_of(kind, etcd.new_prefix()))
    first, second = (App(f"sqlite:///{tmp_path / name}", workflows=[work], config=config) for name in ("a.db", "b.db"))
    async with first.worker(id="w1"):
        pass
    with pytest.raises(StoreRefused, match=r"belongs to another store\. Give each store a prefix of its own"):
        async with second.worker(id="w2"):
            pass
    async with first.worker(id="w1"):
        pass
    leases = config.leases
    (tmp_path / "holdfast.toml").write_text(
        f"[store]\nurl = 'sqlite:///{tmp_path / 'b.db'}'\n[leases]\ntype = '{kind}'\nttl = '3s'\n"
        f"endpoints = ['{leases.endpoints[0]}']\nprefix = '{leases.prefix}'\n"
        + (f"bucket = '{leases.bucket}'\n" if kind == "nats" else "")
    )
    monkeypatch.chdir(tmp_path)
    found = [one.text async for one in examine(None, None) if one.check == "leases"]
    assert len(found) == 1
    assert "belongs to another store" in found[0]
    app = first.asgi(authorize=lambda _: ("me", "read"))
    transport = httpx.ASGITransport(app)
    async with first, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = (await http.get("/api/v1/doctor")).json()
        report = (await http.get("/api/v1/leases")).json()
    assert f"{'NATS' if kind == 'nats' else kind} at {leases.endpoints[0]}: " in str(answer["findings"])
    assert (report["manager"], report["problem"]) == ("NATS" if kind == "nats" else "etcd", "")
    assert [(one["address"], one["problem"]) for one in report["members"]] == [(leases.endpoints[0], "")]
    assert "leader" in report["members"][0]["role"]
