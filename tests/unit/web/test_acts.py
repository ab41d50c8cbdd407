"""Updates over HTTP: the answer, a refusal, a timeout, and what is refused before it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Signal, Update, UpdateRefused, workflow
from tests.unit.web.conftest import Api, made_api

double = Update[int, int]("double")
close = Signal[bool]("close")


@workflow(accepts=(double, close))
async def desk() -> str:
    async def answer(n: int) -> int:
        if n < 0:
            raise UpdateRefused("negative")
        return 2 * n

    double.serve(answer)
    await close.wait()
    return "closed"


async def test_an_update_over_http(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: 200 with the answer, again by its id; 409 with the reason; 422 where the definition refuses it."""
    caplog.set_level("INFO", "holdfast.audit")
    app = App("memory://", workflows=[desk])
    async with app, app.worker(poll="10ms"):
        api = made_api(app)
        async with api.http:
            run = await app.start(desk(), id="r")
            for _ in range(2):
                told = await _ask(api, {"name": "double", "value": 21, "id": "q"})
                assert told == (200, {"answer": 42, "id": "q"})
            status, problem = await _ask(api, {"name": "double", "value": 1, "id": "q"})
            assert (status, problem["error"]) == (409, "Conflict")
            status, problem = await _ask(api, {"name": "double", "value": -1})
            assert (status, problem["error"], problem["reason"]) == (409, "UpdateRefused", "negative")
            for body in ({"name": "double", "value": "x"}, {"name": "other"}, {"name": "double", "timeout": "2h"}):
                assert (await _ask(api, body))[0] == 422
            assert (await _ask(api, {"name": "double", "value": 1}, role="read"))[0] == 403
            await run.signal(close, True)
            await run.result()
            assert (await _ask(api, {"name": "double", "value": 1}))[1]["error"] == "RunFinished"
    assert {record.__dict__["verb"] for record in caplog.records} == {"update"}


async def test_a_late_answer_over_http(api: Api) -> None:
    """Promise: 504 with the id to ask again with."""
    await api.post("runs", {"workflow": "approval", "input": {"name": "ann"}, "id": "r"}, status=201)
    status, problem = await _ask(api, {"name": "double", "value": 1, "timeout": "1ms"})
    assert (status, problem["error"]) == (504, "UpdateTimeout")
    assert problem["id"]


async def _ask(api: Api, body: dict[str, Any], *, role: str = "operate") -> tuple[int, Any]:
    answer = await api.ask("POST", "/api/v1/runs/r/update", body, role=role)
    return answer.status_code, answer.json()
