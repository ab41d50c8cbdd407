"""Runs found by their error over HTTP: in lists, and live."""

from __future__ import annotations

from tests.unit.web.conftest import Api, Stream


async def fail(api: Api, id: str, text: str) -> None:
    await api.post("runs", {"workflow": "fails", "input": {"text": text}, "id": id}, status=201)
    await api.work(id)


async def test_a_list_of_runs_whose_error_says_a_text(api: Api) -> None:
    """Promise: only those, with how many were looked at; a text that is too long is refused; counts take no text."""
    await fail(api, "r1", "connection refused")
    await fail(api, "r2", "out of stock")
    found = await api.get("runs?error=REFUSED")
    assert ([run["id"] for run in found["runs"]], found["looked_at"], found["next"]) == (["r1"], 2, "")
    assert (await api.get("runs?error=refused&status=running"))["runs"] == []
    assert (await api.ask("GET", f"/api/v1/runs?error={'x' * 201}")).status_code == 422
    assert (await api.ask("GET", "/api/v1/runs/counts?error=refused")).status_code == 400


async def test_a_live_list_tells_of_runs_whose_error_says_it(api: Api) -> None:
    """Promise: a run that fails that way is told of; others are named as gone."""
    async with Stream(api.server, "/api/v1/runs/events?error=refused", api.secrets["read"]) as stream:
        assert (await stream.next() or ("",))[0] == "hello"
        await fail(api, "r1", "connection refused")
        await fail(api, "r2", "out of stock")
        shown: set[str] = set()
        gone: set[str] = set()
        while not ("r1" in shown and "r2" in gone):
            name, _, data = await stream.next() or ("", "", {})
            assert name == "runs"
            shown |= {run["id"] for run in data["runs"]}
            gone |= set(data["gone"])
        assert shown == {"r1"}
