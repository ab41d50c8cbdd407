"""Secret values of a flow are shown nowhere."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from holdfast import App, Run, RunFailed, workflow
from holdfast.core.redaction import Redaction
from holdfast.core.turn import Row
from holdfast.ports.runs import Filter
from holdfast.testing import Sim
from tests.integration.flow_shop import COMPONENTS, done, served
from tests.support.flows import flow


@pytest.fixture(autouse=True)
def ledger() -> None:
    done.clear()


def test_secrets_are_shown_nowhere() -> None:
    """Contract: neither in the journal as it is shown, nor in errors, nor in what the run says it is doing."""
    secretive = flow(
        "secretive",
        {
            "a": {"call": "pack", "with": {"sku": "s-${vars.token}"}},
            "b": {"call": "refuse", "with": {"why": "401 for ${vars.token}"}, "retry": {"attempts": 2}, "needs": ["a"]},
        },
        "${steps.b}",
        vars={"token": {"secret": True}},
    )
    with Sim(served(secretive)) as sim:
        run = sim.start(secretive(None, vars={"token": "hunter22"}))
        with pytest.raises(RunFailed, match="401 for •••") as caught:
            run.result()
        shown = repr([*run.follow(), run.view(), caught.value])
        assert "hunter22" not in shown
        assert done[0] == "pack s-hunter22"


async def test_secrets_are_not_shown_by_who_started_the_flow_either() -> None:
    """Promise: a batch and a script that start a flow have its secrets in their journals, and nobody is shown them."""
    secretive = flow(
        "secretive",
        {"a": {"call": "pack", "with": {"sku": "s-${vars.token}"}}},
        "done",
        vars={"token": {"secret": True}},
    )

    @workflow
    async def outer() -> Any:
        return await secretive(None, vars={"token": "hunter22"})

    app = App("memory://", workflows=[secretive, outer, *COMPONENTS])
    async with app.worker():
        inputs = [secretive(None, vars={"token": f"hunter{number}"}) for number in (23, 24)]
        batch = await app.start_batch(secretive, inputs, id="b")
        script = await app.start(outer(), id="s")
        assert (await batch.result("1m")).completed == 2
        assert await script.result("1m") == "done"
        for name in ("b", "s"):
            run: Run[Any] = await app.get(name)
            shown = repr([event async for event in run.follow()])
            assert "•••" in shown
            assert "hunter" not in shown


async def results(run: Run[Any]) -> list[Any]:
    """What its children returned, as its journal shows it."""
    return [event.data["value"] async for event in run.follow() if event.type == "child_ended"]


async def test_a_result_whose_run_cannot_be_read_is_hidden_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: which of its values are secret is not known then; the journal of its parent is still shown."""
    packs = flow("packs", {"a": {"call": "pack", "with": {"sku": "s-1"}}}, "${steps.a}")

    @workflow
    async def outer() -> None:
        await packs(None)

    app = App("memory://", workflows=[packs, outer, *COMPONENTS])
    async with app.worker():
        run = await app.start(outer(), id="s")
        await run.result("1m")
        store = (await app.client()).store
        [child] = (await store.list(Filter(parent="s"))).runs
        history = store.history

        async def damaged(run_id: str, **more: Any) -> list[Row]:
            return [] if run_id == child.id else await history(run_id, **more)

        with monkeypatch.context() as patch:
            patch.setattr(store, "history", damaged)
            assert await results(run) == ["•••"]
        assert await results(run) == ["s-1/"]


def test_a_secret_is_hidden_however_an_error_spells_it() -> None:
    """Promise: a key of several lines, or with signs that texts and addresses escape, is hidden in that form too."""
    key = "-----BEGIN-----\nabc/+d=\"'é\n-----END-----"
    hiding = Redaction([key])
    for spelt in (
        key,
        repr(key),
        json.dumps(key, ensure_ascii=False),
        quote(key),
        quote(key, safe=""),
        quote_plus(key),
    ):
        assert "abc" not in hiding.text(f"refused: {spelt}!"), spelt
