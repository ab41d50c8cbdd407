"""The applications of `examples/` do what they say. On virtual time where nothing outside is the point."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.function import FunctionModel

from examples import agent, document_approval, nightly_etl, pydantic_ai_model, traced
from examples.conversation import Delta, Message
from examples.document_approval import Decision, HandOver, approve, decide, hand_over, state, tell
from examples.fake_model import fake_model
from examples.nightly_etl import PAGES, ROWS, Busy, extract, loaded, source
from holdfast import App, Permanent, RetryAfter, RunFailed, Status, UpdateRefused
from holdfast.testing import Fake, Sim


@pytest.fixture
def approvals() -> Iterator[Sim]:
    with Sim(document_approval.app) as sim:
        yield sim


def test_a_document_is_decided_by_who_has_it(approvals: Sim) -> None:
    """Promise: the wrong person and a rejection without a reason are refused, a hand-over moves the document, and its
    new approver finds it."""
    run = approvals.start(approve("contract", "ann"))
    with pytest.raises(UpdateRefused, match="say in the note why"):
        run.update(decide, Decision("ann", is_approved=False))
    with pytest.raises(UpdateRefused, match="ann has it already"):
        run.update(hand_over, HandOver("ann"))
    assert run.update(hand_over, HandOver("bob"), id="req-1") == "told bob: please decide about contract"
    assert run.update(hand_over, HandOver("bob"), id="req-1") == "told bob: please decide about contract"
    assert [view.id for view in approvals.runs(attributes={"approver": "bob"})] == [run.id]
    assert not approvals.runs(attributes={"approver": "ann"})
    with pytest.raises(UpdateRefused, match="bob decides about contract, not ann"):
        run.update(decide, Decision("ann", is_approved=True))
    assert run.get(state) == "waiting for bob"
    assert run.update(decide, Decision("bob", is_approved=False, note="too dear")) == "recorded"
    assert run.result() == "rejected"


def test_a_document_that_nobody_decides_about_is_given_up(approvals: Sim) -> None:
    """Promise: a reminder a day, three of them."""
    told = Fake(tell, lambda person, text: "")
    approvals.use(told)
    run = approvals.start(approve("contract", "ann"))
    assert run.result("3d") == "nobody decided"
    assert told.calls == [{"person": "ann", "text": "contract still waits for you"}] * 3


def test_every_night_all_pages_are_loaded_once() -> None:
    """Promise: the schedule starts the import, a busy source holds everybody back, and repeats change nothing."""
    asked: list[int] = []

    def busy_once(page: int) -> list[nightly_etl.Row]:
        asked.append(page)
        if len(asked) == 1:
            raise RetryAfter("30s", limit=source) from Busy()
        return [nightly_etl.Row(f"sku-{page}-{number}", 1) for number in range(ROWS)]

    with Sim(nightly_etl.app) as sim:
        sim.use(Fake(extract, busy_once))
        sim.advance("2d")
        nights = [view for view in sim.runs() if view.workflow == "nightly_import"]
        assert [view.status for view in nights] == [Status.COMPLETED, Status.COMPLETED]
        assert all(view.id.startswith("nightly@") for view in nights)
        assert sim.get(nights[0].id).get(loaded) == PAGES * ROWS
        assert len(asked) == 2 * PAGES + 1
        assert len(nightly_etl.STATE) == PAGES * ROWS


def test_a_page_that_cannot_be_read_fails_alone() -> None:
    """Promise: the import names the page, and the other pages are loaded."""

    def broken(page: int) -> list[nightly_etl.Row]:
        if page == 3:
            raise Permanent("page 3 is gone")
        return []

    with Sim(nightly_etl.app) as sim:
        sim.use(Fake(extract, broken))
        run = sim.start(nightly_etl.nightly_import("today"))
        with pytest.raises(RunFailed, match="page 3 is gone"):
            run.result("1m")
        assert [view.status for view in sim.runs()].count(Status.FAILED) == 2


@pytest.mark.parametrize("breaks", [0, 1])
async def test_an_agent_asks_before_it_uses_a_tool(breaks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a reader of completed parts sees what the model said once, also when the connection breaks in the middle
    of an answer."""
    with fake_model(breaks) as url:
        monkeypatch.setenv("MODEL_URL", url)
        app = App("memory://", workflows=[agent.agent])
        async with app.worker():
            run = await app.start(agent.agent("How is the weather?"))
            async for wanted in run.watch(agent.wanted):
                assert wanted == "weather(Kiel)"
                await run.signal(agent.allowed, True)
            assert await run.result("30s") == "The weather is fine: 18 degrees in Kiel"
            said = [part.value async for part in run.read(agent.tokens, only="completed")]
            everything = [part async for part in run.read(agent.tokens)]
    assert "".join(said) == "The weather is unknown. The weather is fine: 18 degrees in Kiel"
    assert {part.state for part in everything} == ({"completed", "superseded"} if breaks else {"completed"})


async def test_an_agent_asks_its_model_through_pydantic_ai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: with MODEL it is a model of Pydantic AI that streams, asks for tools, and hears what they said."""
    monkeypatch.setenv("MODEL", "test")
    app = App("memory://", workflows=[agent.agent])
    async with app.worker():
        run = await app.start(agent.agent("How is the weather?"))
        async for wanted in run.watch(agent.wanted):
            assert wanted == "weather(a)"
            await run.signal(agent.allowed, True)
        assert await run.result("30s") == '{"weather":"18 degrees in a"}'
        assert "".join([part.value async for part in run.read(agent.tokens)]) == '{"weather":"18 degrees in a"}'


@pytest.mark.parametrize(
    ("status", "expected"), [(429, ConnectionError), (503, ConnectionError), (401, ModelHTTPError)]
)
async def test_only_what_may_pass_is_asked_again(status: int, expected: type[Exception]) -> None:
    """Promise: a busy provider is worth another try, a wrong key is not."""

    async def refuses(messages: object, info: object) -> AsyncIterator[str]:
        raise ModelHTTPError(status, "a model")
        yield ""

    model = FunctionModel(stream_function=refuses)
    with pytest.raises(expected):
        await anext(pydantic_ai_model.answer(model, [Message("user", "hello")], ["weather"]))


def test_a_tool_that_is_not_allowed_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: after a day without an answer, or with a no, the model hears that it may not."""
    seen: list[list[str]] = []

    def model(conversation: list[Message]) -> Delta:
        seen.append([message.text for message in conversation if message.role == "tool"])
        return Delta(tool=["weather", "delete_everything"][len(seen) - 1]) if len(seen) < 3 else Delta("ok")

    with Sim(agent.app) as sim:
        sim.use(Fake(agent.think, model))
        assert sim.start(agent.agent("hello")).result("1d") == "ok"
    assert seen[-1] == ["the tool weather was not allowed", "there is no tool delete_everything"]


def test_attempts_have_spans_and_ends_are_counted() -> None:
    """Promise: a span for each attempt with its run, an error on the one that failed, and a count for what happened."""
    exporter, provider, counts = InMemorySpanExporter(), TracerProvider(), traced.Counts()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    asked: list[str] = []

    def price(sku: str) -> int:
        asked.append(sku)
        if len(asked) == 1:
            raise ConnectionError("the price list is away")
        return 500

    with Sim(traced.traced_app(provider, counts)) as sim:
        sim.use(Fake(traced.price, price))
        assert sim.start(traced.quote("sku-1"), id="q-1").result("1m") == 500
    spans = exporter.get_finished_spans()
    assert [(span.name, dict(span.attributes or {})["holdfast.attempt"]) for span in spans] == [
        ("step price", 1),
        ("step price", 2),
    ]
    assert [span.status.is_ok for span in spans] == [False, True]
    assert all(dict(span.attributes or {})["holdfast.run"] == "q-1" for span in spans)
    assert counts.seen == {"failed attempts of price": 1, "runs completed": 1}


def test_every_example_is_on_the_page() -> None:
    """Promise: who reads `docs/guides/examples.md` finds all of them."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "guides" / "examples.md").read_text(encoding="utf-8")
    names = [
        path.name for path in (root / "examples").iterdir() if path.suffix == ".py" or (path / "manage.py").exists()
    ]
    assert len(names) >= 9
    assert [name for name in names if f"(../../examples/{name}" not in page] == []
