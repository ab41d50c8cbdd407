"""Flows are workflows like the rest: started, asked, shown, paused, cancelled, retried, and called as children."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, RunCancelled, RunFailed, Signal, step, sync
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.errors import FlowFailed, InvalidArguments
from holdfast.testing import Fake, Sim
from tests.integration.flow_shop import COMPONENTS, Price, done, price, served
from tests.support.flows import flow


@pytest.fixture(autouse=True)
def ledger() -> None:
    done.clear()


approved = Signal[bool]("approved")


ORDER = flow(
    "order",
    {
        "price": {"call": "price", "with": {"id": "${input.id}", "region": "${vars.region}"}},
        "tax": {
            "if": "${not input.tax_free and steps.price.cents > 1000}",
            "else": 0,
            "call": "tax",
            "with": {"amount": "${steps.price.cents}"},
        },
        "boxes": {
            "each": {"in": "${input.lines ?? []}", "limit": 2},
            "call": "pack",
            "with": {"sku": "${item.sku}", "note": "order ${input.id}"},
        },
        "sent": {"call": "ship", "with": {"parcels": "${steps.boxes}"}},
        "ok": {"wait": {"signal": "approved", "timeout": "3d", "default": False}},
    },
    {
        "total": "${steps.price.cents + steps.tax}",
        "boxes": "${steps.boxes}",
        "sent": "${steps.sent}",
        "ok": "${steps.ok}",
    },
    input={"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
    vars={"region": {"default": "eu"}},
)


@pytest.mark.spec("stem.S20")
def test_a_flow_runs_like_any_workflow() -> None:
    """Contract: declared steps are the plan: started, waited for and asked like code, its result is the output."""
    with Sim(served(ORDER)) as sim:
        call = ORDER({"id": 2, "lines": [{"sku": "a"}, {"sku": "b"}, {"sku": "c"}]})
        run = sim.start(call, id="order-2")
        assert "waiting for signal approved, 3 d left" in run.waiting
        run.signal(approved, True)
        assert run.result() == {
            "total": 2200,
            "boxes": ["a/order 2", "b/order 2", "c/order 2"],
            "sent": "3 shipped",
            "ok": True,
        }
        assert sim.start(call, id="order-2").result() == run.result()


def test_a_wait_that_times_out_gives_its_default() -> None:
    with Sim(served(ORDER)) as sim:
        run = sim.start(ORDER({"id": 1, "tax_free": True}))
        sim.advance("3d")
        assert run.result() == {"total": 1000, "boxes": [], "sent": "0 shipped", "ok": False}
        assert "tax" not in done


def test_variables_have_defaults_and_can_be_given() -> None:
    where = flow(
        "where", {"p": {"call": "price", "with": {"id": "${vars.token}", "region": "${vars.region}"}}},
        "${steps.p.region}", vars={"region": {"default": "eu"}, "token": {}},
    )  # fmt: skip
    with Sim(served(where)) as sim:
        assert sim.start(where(None, vars={"token": 1, "region": "us"})).result() == "us"
        assert sim.start(where(None, vars={"token": 1})).result() == "eu"
    with pytest.raises(InvalidArguments, match=r"vars\.token has no default"):
        _ = where(None)
    with pytest.raises(InvalidArguments, match=r"vars\.tokn is not declared; its variables are: region, token"):
        _ = where(None, vars={"tokn": "x"})


def test_variables_that_no_start_needs_need_not_be_given() -> None:
    """Promise: one that nothing uses, or that has something else in its place, may be left out, with or without a
    default; the same holds for sub-flows. All of them are needed where they are used as a whole."""
    inner = flow("inner", {}, "${vars.note ?? 'none'}", vars={"token": {"secret": True}, "note": {}})
    outer = flow("outer", {"s": {"call": "inner"}}, "${steps.s}")
    whole = flow("whole", {}, "${vars}", vars={"token": {}})
    with Sim(served(inner, outer, whole)) as sim:
        assert sim.start(inner(None)).result() == "none"
        assert sim.start(inner(None, vars={"note": "n"})).result() == "n"
        assert sim.start(outer(None)).result() == "none"
        assert sim.start(whole(None, vars={"token": 1})).result() == {"token": 1}
    with pytest.raises(InvalidArguments, match=r"vars\.token has no default"):
        _ = whole(None)


def test_input_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    """Contract: the flow's input schema is checked where the call is made, every place named."""
    with pytest.raises(InvalidArguments, match=r'flow order: input: "id" is a required property'):
        _ = ORDER({})
    with pytest.raises(InvalidArguments, match=r'input\.id: "x" is not of type "integer"'):
        _ = ORDER({"id": "x"})


def test_output_that_does_not_fit_fails_the_run() -> None:
    wrong = flow("wrong", {}, {"a": 1}, output_schema={"properties": {"a": {"type": "string"}}})
    with Sim(served(wrong)) as sim, pytest.raises(RunFailed, match=r'output\.a: 1 is not of type "string"'):
        sim.start(wrong(None)).result()


@pytest.mark.spec("stepflow.X3")
def test_a_flow_without_steps_completes_at_once() -> None:
    """Contract: so does an `each` over nothing."""
    empty = flow("empty", {}, {"hello": "${input}"})
    none = flow("none", {"all": {"each": {"in": []}, "call": "pack", "with": {"sku": "${item}"}}}, "${steps.all}")
    with Sim(served(empty, none)) as sim:
        assert sim.start(empty("world")).result() == {"hello": "world"}
        assert sim.start(none(None)).result() == []


@pytest.mark.spec("stepflow.X4")
def test_only_what_is_needed_runs() -> None:
    """Contract: steps that the output needs and those marked always; what only a skipped step would read never runs."""
    lazy = flow(
        "lazy",
        {
            "dead": {"call": "pack", "with": {"sku": "dead"}},
            "told": {"call": "pack", "with": {"sku": "told"}, "always": True},
            "costly": {"call": "pack", "with": {"sku": "costly"}},
            "maybe": {"if": "${input.deep}", "else": "shallow", "call": "pack", "with": {"sku": "${steps.costly}"}},
        },
        "${steps.maybe}",
    )
    with Sim(served(lazy)) as sim:
        assert sim.start(lazy({"deep": False})).result() == "shallow"
        assert done == ["pack told"]
        assert sim.start(lazy({"deep": True})).result() == "costly//"
        assert sorted(done) == ["pack costly", "pack costly/", "pack told", "pack told"]


@pytest.mark.spec("stepflow.X6")
class TestSkipping:
    SKIPS = flow(
        "skips",
        {
            "a": {"if": "${input.a}", "call": "pack", "with": {"sku": "a"}},
            "b": {"call": "pack", "with": {"sku": "${steps.a}"}},
            "c": {"call": "pack", "with": {"sku": "c"}, "needs": ["b"]},
            "d": {"call": "pack", "with": {"sku": "${steps.c ?? 'no c'}"}},
            "e": {"if": "${true}", "call": "pack", "with": {"sku": "${steps.b}"}, "else": "instead"},
            "f": {"if": "${not steps.a}", "call": "pack", "with": {"sku": "f"}, "else": None},
        },
        {name: f"${{steps.{name}}}" for name in "bcdef"} | {"t": "t ${steps.b}"},
    )  # fmt: skip

    @pytest.mark.spec("stepflow.X6")
    def test_a_skip_goes_on_to_whatever_needs_the_step(self) -> None:
        """Contract: as far as an else or a ?? that says what to use; a part of the output that is not there is null."""
        with Sim(served(self.SKIPS)) as sim:
            result = sim.start(self.SKIPS({"a": False})).result()
        assert result == {"b": None, "c": None, "d": "no c/", "e": "instead", "f": "f/", "t": None}
        assert sorted(done) == ["pack f", "pack no c"]

    def test_nothing_is_skipped_if_the_condition_holds(self) -> None:
        with Sim(served(self.SKIPS)) as sim:
            result = sim.start(self.SKIPS({"a": True})).result()
        assert result == {"b": "a//", "c": "c/", "d": "c//", "e": "a///", "f": None, "t": "t a//"}


@pytest.mark.spec("stepflow.X6")
def test_on_error_gives_a_value_and_the_flow_goes_on() -> None:
    mild = flow(
        "mild",
        {
            "a": {"call": "refuse", "with": {"why": "no"}, "on_error": {"value": {"said": "${input}"}}},
            "b": {
                "each": {"in": ["x", "broken", "z"]},
                "call": "pack",
                "with": {"sku": "${item}"},
                "on_error": {"value": "no ${item}"},
            },
        },
        ["${steps.a.said}", "${steps.b}"],
    )
    with Sim(served(mild)) as sim:
        assert sim.start(mild("hm")).result() == ["hm", ["x/", "no broken", "z/"]]


def test_a_failure_names_flow_and_step_and_what_is_completed_stays() -> None:
    """Contract: FlowFailed as data; `retry` takes over what the failed run completed."""
    fails = flow(
        "fails",
        {
            "p": {"call": "price", "with": {"id": 3}},
            "q": {"call": "refuse", "with": {"why": "cents ${steps.p.cents}"}},
        },
        "${steps.q}",
    )
    with Sim(served(fails)) as sim:
        run = sim.start(fails(None))
        with pytest.raises(RunFailed, match=r"flow fails: step q failed after 1 attempt: .*Permanent: cents 3000"):
            run.result()
        again = run.retry()
        assert again.wait() is not None
    assert done == ["price", "refuse", "refuse"]


def test_arguments_that_do_not_fit_the_component_are_that_steps_failure() -> None:
    bad = flow("bad", {"p": {"call": "price", "with": {"id": "x"}}}, "${steps.p}")
    odd = flow("odd", {"p": {"call": "price", "with": {"id": 1, "colour": 2}}}, "${steps.p}")
    with Sim(served(bad, odd)) as sim:
        with pytest.raises(RunFailed, match=r"step p failed: InvalidArguments: with: .*id"):
            sim.start(bad(None)).result()
        with pytest.raises(RunFailed, match="colour"):
            sim.start(odd(None)).result()
    assert not done


def test_retries_and_timeouts_of_the_flow_come_before_the_steps_own() -> None:
    tries: list[int] = []

    @step(retry=1)
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "at last"

    @step(name="slow", retry=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    patient = flow("patient", {"a": {"call": "flaky", "retry": {"attempts": 3}}}, "${steps.a}", brings=(flaky,))
    brief = flow("brief", {"a": {"call": "slow", "timeout": "5s"}}, "${steps.a}", brings=(slow,))
    with Sim() as sim:
        run = sim.start(patient(None))
        sim.advance("1m")
        assert run.result() == "at last"
        hurried = sim.start(brief(None))
        sim.advance("5s")
        with pytest.raises(RunFailed, match="TimeoutError"):
            hurried.result()


def test_a_saga_undoes_completed_steps_in_reverse() -> None:
    """Contract: as their Python steps declare, with typed results."""
    trip = flow(
        "trip",
        {
            "p": {"call": "price", "with": {"id": 1}},
            "b": {"call": "pack", "with": {"sku": "${steps.p.region}"}},
            "end": {"call": "refuse", "with": {"why": "full"}, "needs": ["b"]},
        },
        "${steps.end}",
        saga=True,
    )
    with Sim(served(trip)) as sim, pytest.raises(RunFailed, match="step end failed"):
        sim.start(trip(None)).result()
    assert done == ["price", "pack eu", "refuse", "undo eu/", "undo 1000"]


def test_cancel_and_pause() -> None:
    nap = flow(
        "nap", {"n": {"sleep": "${input}"}, "p": {"call": "pack", "with": {"sku": "x"}, "needs": ["n"]}}, "${steps.p}"
    )
    with Sim(served(nap)) as sim:
        run = sim.start(nap("1h"))
        assert "sleeping until 13:00" in run.waiting
        run.pause("let it rest")
        sim.advance("2h")
        assert run.status() == "paused"
        run.resume()
        sim.advance("1s")
        assert run.result() == "x/"
        other = sim.start(nap(3600))
        other.cancel("no longer wanted")
        with pytest.raises(RunCancelled, match="no longer wanted"):
            other.result()


class TestApproval:
    GATE = flow(
        "gate",
        {
            "ok": {
                "approve": {
                    "by": "finance",
                    "when": "${input.cents > 100}",
                    "why": "an order of ${input.cents}",
                    "timeout": "2d",
                    "then": {"escalate": {"by": "the board", "timeout": "1d", "then": "approve"}},
                }
            }
        },
        "${steps.ok}",
    )

    def test_who_when_and_why_are_recorded(self) -> None:
        """Contract: a signal named after the step answers; while it waits, what it asks is shown."""
        with Sim(served(self.GATE)) as sim:
            run = sim.start(self.GATE({"cents": 200}))
            shown = [x.data for x in run.follow() if x.type == "exposed"]
            assert shown[0]["value"]["by"] == "finance"
            assert shown[0]["value"]["why"] == "an order of 200"
            sim.advance("1h")
            run.signal(Signal[str]("ok"), "what?")
            run.signal(Signal[dict[str, Any]]("ok"), {"approved": False, "by": "Ann", "why": "too dear"})
            assert run.result() == {
                "approved": False,
                "by": "Ann",
                "at": "2026-01-01T13:00:00+00:00",
                "why": "too dear",
            }

    def test_a_plain_yes_is_the_senders(self) -> None:
        with Sim(served(self.GATE)) as sim:
            run = sim.start(self.GATE({"cents": 200}))
            run.signal(Signal[bool]("ok"), True)
            assert run.result()["approved"] is True
            assert run.result()["by"] == "test"

    def test_time_escalates_and_then_decides(self) -> None:
        """Promise: the next one is asked when the time is over, and is told the same reason unless it has its own."""
        with Sim(served(self.GATE)) as sim:
            run = sim.start(self.GATE({"cents": 200}))
            sim.advance("2d")
            asked = [(x.data["value"]["by"], x.data["value"]["why"]) for x in run.follow() if x.type == "exposed"]
            assert asked == [("finance", "an order of 200"), ("the board", "an order of 200")]
            sim.advance("1d")
            result = run.result()
            assert (result["approved"], result["by"]) == (True, None)

    def test_nobody_is_asked_if_that_is_not_needed(self) -> None:
        with Sim(served(self.GATE)) as sim:
            assert sim.start(self.GATE({"cents": 5})).result()["approved"] is True


def test_fakes_stand_for_components() -> None:
    def cheap(id: int, region: str = "eu") -> Price:
        return Price(5, region)

    fake = Fake(price, cheap)
    with Sim(served(ORDER)) as sim:
        sim.use(fake)
        run = sim.start(ORDER({"id": 2}))
        run.signal(approved, True)
        assert run.result()["total"] == 5
    assert fake.calls == [{"id": 2, "region": "eu"}]


@pytest.mark.spec("stepflow.X10")
def test_a_deadlock_is_an_error_and_never_a_hang() -> None:
    """Contract: a definition that nobody checked, whose steps wait for each other, fails the run and names them."""
    knot = flow(
        "knot",
        {
            "a": {"call": "pack", "with": {"sku": "${steps.b}"}},
            "b": {"call": "pack", "with": {"sku": "${steps.a}"}},
        },
        "${steps.a}",
    )
    with Sim(served(knot)) as sim, pytest.raises(RunFailed, match="nothing runs and nothing can begin, but a, b"):
        sim.start(knot(None)).result()


@pytest.mark.spec("stepflow.B3")
async def test_with_a_real_worker(tmp_path: Any) -> None:
    """Contract: the definition is a blob of its own kind, written with the start in one transaction."""
    app = App(f"sqlite:///{tmp_path}/flows.db", workflows=[ORDER, *COMPONENTS])
    async with app.worker():
        run = await app.start(ORDER({"id": 4}), id="o")
        await run.signal(approved, True)
        assert (await run.result(timeout="1m"))["total"] == 4400
        client = await app.client()
        row = await client.store.get("o")
        assert row is not None
        assert row.code == ORDER.hash
        assert await client.store.blob_kind(ORDER.hash) == "definition"
        first = decode_row((await client.store.history("o"))[0]).events[0]
        assert isinstance(first, e.Started)
        assert (first.style, first.code) == ("flow", ORDER.hash)


def test_the_same_from_sync_code(tmp_path: Any) -> None:
    app = sync.App(f"sqlite:///{tmp_path}/flows.db", workflows=[ORDER, *COMPONENTS])
    with app.worker():
        run = app.start(ORDER({"id": 4}), id="o")
        run.signal(approved, True)
        assert run.result(timeout="1m")["total"] == 4400


def test_failed_flows_carry_fields() -> None:
    error = FlowFailed("text", flow="f", step="s", type="T", message="m", attempts=2)
    assert (error.flow, error.step, error.type, error.message, error.attempts) == ("f", "s", "T", "m", 2)
