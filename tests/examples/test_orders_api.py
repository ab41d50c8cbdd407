"""The FastAPI example on PostgreSQL: an order and its run by one transaction, its events live."""

from __future__ import annotations

import importlib

import httpx
import pytest

from tests.support.postgres import clean_url


async def test_an_order_is_placed_followed_and_not_placed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the answer to the second order is a conflict, the events of the first are read to their end, and an
    order whose transaction fails has no run."""
    monkeypatch.setenv("DATABASE", clean_url())
    module = importlib.import_module("examples.orders_api")
    transport = httpx.ASGITransport(module.api)
    async with module.lifespan(module.api), httpx.AsyncClient(transport=transport, base_url="http://shop") as http:
        placed = await http.post("/orders", json={"id": "42", "cents": 999})
        assert (placed.status_code, placed.json()) == (202, {"run": "order-42"})
        events = await http.get("/orders/42/events")
        assert events.text == 'id: 0\ndata: "42 paid"\n\nid: 1\ndata: "42 shipped"\n\n'
        assert (await http.get("/orders/42/events?after=0")).text == 'id: 1\ndata: "42 shipped"\n\n'
        assert (await http.get("/orders")).json() == {"42": "shipped"}
        assert (await http.post("/orders", json={"id": "42", "cents": 1})).status_code == 409
        assert (await http.get("/orders/43/events")).status_code == 404
        with monkeypatch.context() as broken:
            broken.setattr(module.AsyncSession, "commit", fails)
            with pytest.raises(ConnectionError):
                await http.post("/orders", json={"id": "44", "cents": 1})
        assert (await http.get("/orders/44/events")).status_code == 404
        assert (await http.get("/orders")).json() == {"42": "shipped"}
        async with module.engine.begin() as db:
            await db.run_sync(module.Table.metadata.drop_all)


async def fails(_: object) -> None:
    """Stands for a commit whose connection breaks."""
    raise ConnectionError("the database went away")
