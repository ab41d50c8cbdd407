"""Flows as children: of scripts, of flows, and retried as the flow says."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import FlowBuilder, RunFailed, workflow
from holdfast.errors import DefinitionError
from holdfast.testing import Sim
from tests.integration.flow_shop import done, served
from tests.support.flows import flow


@pytest.fixture(autouse=True)
def ledger() -> None:
    done.clear()


def test_a_flow_is_a_child_of_scripts_and_of_flows() -> None:
    """Contract: awaited in a script, called in a flow; the same run for the same key."""
    inner = flow("inner", {"p": {"call": "pack", "with": {"sku": "${input.sku}"}}}, "${steps.p}")
    outer = flow(
        "outer",
        {"all": {"each": {"in": "${input}"}, "call": "inner", "with": {"sku": "${item}"}}},
        {"all": "${steps.all}"},
    )

    @workflow
    async def script(skus: list[str]) -> Any:
        return await outer(skus)

    with Sim(served(inner, outer, script)) as sim:
        run = sim.start(script(["a", "b"]), id="s")
        assert run.result() == {"all": ["a/", "b/"]}
        assert sim.get("s/outer/all.1", inner).result() == "b/"


def test_a_sub_flow_gets_values_for_its_variables() -> None:
    """Contract: `vars` of the step that calls it; what is not given has its default, what it does not have fails it."""
    inner = flow(
        "inner", {}, ["${vars.region}", "${vars.token}", "${input}"], vars={"region": {"default": "eu"}, "token": {}}
    )

    def outer(name: str, given: dict[str, Any], target: str = "inner", **more: Any) -> Any:
        return flow(name, {"s": {"call": target, "vars": given, **more}}, "${steps.s}", vars={"mine": {"default": "m"}})

    each = outer("each", {"token": "${item}", "region": "${vars.mine}"}, each={"in": "${input}"})
    wrong = [
        outer("unknown", {"tokn": 1}),
        outer("missing", {}),
        outer("step", {"a": 1}, "pack", **{"with": {"sku": "s"}}),
    ]
    f = FlowBuilder("built")
    built = f.build(f.call("s", inner, {"x": 1}, vars={"token": f.input}))
    with Sim(served(inner, outer("outer", {"token": "${input}"}), each, built, *wrong)) as sim:
        assert sim.start(outer("outer", {"token": "${input}"})("t")).result() == ["eu", "t", {}]
        assert sim.start(each(["a", "b"])).result() == [["m", "a", {}], ["m", "b", {}]]
        assert sim.start(built("k")).result() == ["eu", "k", {"x": 1}]
        for each, why in zip(
            wrong, ("vars.tokn is not declared", "vars.token has no default", "pack is not a flow"), strict=True
        ):
            with pytest.raises(RunFailed, match=why):
                sim.start(each(None)).result()


@pytest.mark.parametrize("name", ["first", "ping", "self"])
def test_flows_that_call_each_other_are_not_served(name: str) -> None:
    """Contract: what `flow check` refuses is refused where it would be run, however far away the circle is."""
    flows = {
        "first": flow("first", {"s": {"call": "ping"}}, "${steps.s}"),
        "ping": flow("ping", {"s": {"call": "pong"}}, "${steps.s}"),
        "pong": flow("pong", {"s": {"call": "ping"}}, "${steps.s}"),
        "self": flow("self", {"s": {"call": "self"}}, "${steps.s}"),
    }
    around = {"self": "self → self"}.get(name, "ping → pong → ping")
    app = served(flows[name], flows["ping"], flows["pong"]) if name != "self" else served(flows["self"])
    with pytest.raises(DefinitionError, match=f"flows call each other in a circle: {around}"):
        app.registry.find(name, "")


def test_a_child_that_fails_is_tried_again_as_the_flow_says() -> None:
    tries: list[int] = []

    @workflow
    async def shaky(n: int) -> int:
        tries.append(n)
        if len(tries) < 3:
            raise ValueError("not yet")
        return n

    again = flow(
        "again", {"s": {"call": "shaky", "with": {"n": 7}, "retry": {"attempts": 3}}}, "${steps.s}", brings=(shaky,)
    )
    with Sim() as sim:
        run = sim.start(again(None))
        sim.advance("1m")
        assert run.result() == 7
