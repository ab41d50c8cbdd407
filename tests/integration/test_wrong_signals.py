"""A signal of the wrong type: refused where it is sent; if it is stored all the same, an operator can correct it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Conflict, Run, RunFinished, Signal, Status, Topic, Update, remote, start, step, workflow
from holdfast.client.client_run import ClientRun
from holdfast.errors import DefinitionError, InvalidInput, NotAllowedHere
from tests.support.world import World, events

approved = Signal[bool]("approved")
go = Signal[int]("go")
news = Topic[int]("news")


@step
async def work() -> int:
    return 1


@workflow
async def named_in_the_body() -> bool:
    await go.wait()
    return await approved.wait()


@workflow(accepts=(approved, go))
async def declared() -> bool:
    return await approved.wait()


async def inner() -> bool:
    return await approved.wait()


@workflow
async def named_in_a_function() -> bool:
    return await inner()


@workflow
async def reads_the_news() -> int:
    return await news.wait()


async def unchecked(app: App, run: Run[Any], name: str, value: Any, id: str) -> None:
    """As a process sends it that knows nothing of the workflow."""
    await ClientRun[Any](await app.client(), run.id, None).signal(Signal[Any](name), value, id=id)


@pytest.mark.parametrize("way", ["send", "handle"])
async def test_a_run_cannot_send_its_child_a_value_of_another_type(world: World, way: str) -> None:
    """Promise: a program knows the definitions of its children: what it sends them is checked before it is stored."""
    wrong = Signal[str]("approved")

    @workflow
    async def sends() -> str:
        child = start(declared(), id="kid")
        try:
            await (wrong.send(child.id, "yes please") if way == "send" else child.signal(wrong, "yes please"))
        except InvalidInput as error:
            await child.signal(approved, True)
            assert await child.result()
            return str(error)
        return "sent"

    async with world.serving(sends, declared) as app:
        told = await (await app.start(sends(), id="p")).result("60s")
    assert told.startswith("run kid: signal approved: Expected `bool`, got `str`. workflow declared")
    assert told.endswith("Nothing was sent.")


@pytest.mark.spec("openworkflow.O116")
@pytest.mark.parametrize("call", [named_in_the_body, declared, named_in_a_function])
async def test_a_value_of_another_type_is_refused_where_it_is_sent(world: World, call: Any) -> None:
    """Promise: by the type that the workflow declares, or that its code names; nothing is stored."""
    app = world.app(call)
    async with app:
        run = await app.start(call(), id="r")
        for handle in (run, await app.get("r")):
            with pytest.raises(
                InvalidInput, match=r"run r: signal approved: Expected `bool`, got `str`.*Nothing was sent"
            ):
                await handle.signal(Signal[str]("approved"), "yes please")
        assert await run.messages() == []
        await run.signal(approved, True)
        assert [(x.number, x.name, x.value, x.problem) for x in await run.messages()] == [(1, "approved", "true", "")]


async def test_a_workflow_that_declares_its_signals_takes_no_others(world: World) -> None:
    """Promise: `accepts=` is the whole list; without it any name may be sent."""
    app = world.app(declared, named_in_the_body)
    async with app:
        run = await app.start(declared())
        with pytest.raises(InvalidInput, match=r"does not accept signal 'aproved'. Did you mean approved\?"):
            await run.signal(Signal[bool]("aproved"), True)
        await (await app.start(named_in_the_body())).signal(Signal[str]("else"), "kept")


async def test_a_remote_declaration_checks_too(world: World) -> None:
    """Promise: a process without the code refuses what the declaration does not name."""

    @remote(name="declared", accepts=approved)
    async def far() -> bool: ...  # type: ignore[empty-body]

    app = world.app(far)
    async with app:
        run = await app.start(far())
        with pytest.raises(InvalidInput, match="Expected `bool`"):
            await run.signal(Signal[int]("approved"), 1)


@pytest.mark.parametrize("wrong", [(news,), "approved", (approved, approved), (Signal("untyped"),)])
def test_a_wrong_declaration_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"accepts=|has no type"):
        workflow(accepts=wrong)(inner)


async def paused_by(world: World, run: Run[Any]) -> str:
    await world.until_status(run, Status.PAUSED)
    return (await run.view()).waiting


@pytest.mark.parametrize("act", ["drop", "replace"])
async def test_an_unread_message_of_the_wrong_type_can_be_corrected(world: World, act: str) -> None:
    """Promise: the run is paused, the reason names message and command, and after the correction it completes."""
    app = world.app(declared)
    async with world.worker(app):
        run = await app.start(declared(), id="order")
        await unchecked(app, run, "approved", "yes please", "m1")
        why = await paused_by(world, run)
        assert "holdfast messages replace order m1 JSON" in why
        assert "holdfast messages drop order m1" in why
        [message] = await run.messages()
        assert (message.number, message.id, "Expected `bool`" in message.problem) == (1, "m1", True)
        if act == "drop":
            await run.drop_message("m1", reason="typo")
        else:
            with pytest.raises(InvalidInput, match="Expected `bool`"):
                await run.replace_message("m1", "still wrong")
            await run.replace_message(1, False, reason="typo")
        await run.resume()
        if act == "drop":
            await run.signal(approved, False)
        assert await run.result(timeout="60s") is False
        kind, said = ("dropped", "actor") if act == "drop" else ("signal", "replaced_by")
        [journaled] = [x.data for x in await events(run) if x.type == kind and x.data.get(said)]
        assert journaled["reason"] == "typo"


@pytest.mark.parametrize("act", ["drop", "replace"])
async def test_a_signal_that_came_before_its_wait_can_be_corrected(world: World, act: str) -> None:
    """Promise: also when the journal has it already; and the corrected journal replays."""
    app = world.app(named_in_the_body)
    async with world.worker(app):
        run = await app.start(named_in_the_body(), id="early")
        await unchecked(app, run, "approved", "yes", "m1")

        async def is_taken_in() -> bool:
            return [x.number for x in await run.messages()] == [0]

        await world.until(is_taken_in)
        with pytest.raises(Conflict, match="Pause the run first"):
            await run.replace_message("m1", True)
        await run.signal(go, 1)
        assert "messages replace early m1" in await paused_by(world, run)
        if act == "drop":
            await run.drop_message("m1", reason="typo")
        else:
            await run.replace_message("m1", True)
        assert "m1" not in {x.id for x in await run.messages() if x.problem}
        await run.resume()
        if act == "drop":
            await run.signal(approved, True)
        assert await run.result(timeout="60s") is True
    async with world.worker(world.app(named_in_the_body)):
        again = await run.retry()
        assert await again.result(timeout="60s") is True


async def test_a_publication_of_the_wrong_type_can_be_dropped(world: World) -> None:
    """Promise: a topic has no addressee to check by; the pause names the message."""
    app = world.app(reads_the_news)
    async with world.worker(app):
        run = await app.start(reads_the_news(), id="reader")
        await world.until_waiting(run, "topic news")
        await app.publish(Topic[str]("news"), "extra!", id="p1")
        why = await paused_by(world, run)
        [message] = await run.messages()
        assert f"holdfast messages drop reader {message.id}" in why
        await run.drop_message(message.id)
        await run.resume()
        await world.until_waiting(run, "topic news")
        await app.publish(news, 7)
        assert await run.result(timeout="60s") == 7


async def test_what_cannot_be_changed_says_so(world: World) -> None:
    """Promise: an unknown message, an ended run and a taken message are refused, and nothing changes."""
    app = world.app(declared)
    async with world.worker(app):
        run = await app.start(declared())
        await run.pause()
        for word in ("unknown", 9):
            with pytest.raises(Conflict, match="holdfast messages"):
                await run.drop_message(word)
        with pytest.raises(Conflict, match="not a signal"):
            await run.replace_message(9, True)
        await run.signal(approved, True, id="m")
        with pytest.raises(InvalidInput, match="drop the message and send another"):
            await run.replace_message("m", "x" * 200_000)
        await run.resume()
        assert await run.result(timeout="60s") is True
        with pytest.raises(RunFinished):
            await run.drop_message("m")
        assert await run.messages() == []


async def test_a_signal_is_not_taken_for_a_topic() -> None:
    """Promise: asking who waits for a signal, or publishing it, is refused with the way, instead of finding nobody."""
    app = App("memory://")
    refused = "approved is a Signal, which goes to one run"
    with pytest.raises(NotAllowedHere, match=rf"app\.waiting\(approved\): {refused}: look at `waiting` of app\.runs"):
        await app.waiting(approved)
    with pytest.raises(NotAllowedHere, match=rf"app\.publish\(approved\): {refused}: await run\.signal\(approved"):
        await app.publish(approved, True)


async def test_a_verb_that_is_given_something_else_says_what_it_takes(still: World) -> None:
    """Promise: at once, with an example; nobody waits for a value that no run shows."""
    app = still.app(declared)
    run: Any = await app.start(declared())
    given: list[Any] = ["approved", Update[int, int]("approved")]
    for wrong in given:
        with pytest.raises(InvalidInput, match=r"a Signal is needed.*run\.update"):
            await run.signal(wrong, True)
    given = ["progress", approved]
    for wrong in given:
        with pytest.raises(InvalidInput, match=r"run\.get.*a RunVar is needed"):
            await run.get(wrong)
        with pytest.raises(InvalidInput, match=r"run\.watch.*a RunVar is needed"):
            await anext(aiter(run.watch(wrong)))
    assert await run.messages() == []
