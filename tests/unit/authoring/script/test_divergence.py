"""Divergence: code that asks for something else than the journal holds is stopped, with both sides and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import sleep
from holdfast.authoring.script.workflows import workflow
from holdfast.core.specs import WorkflowSpec
from holdfast.core.turn import Turn
from holdfast.errors import Diverged
from tests.support.pure import PureRun, replay

go = Signal[int]("go")
done: list[str] = []


def made(body: Callable[[], Any]) -> WorkflowSpec:
    flow: Any = workflow(name="flow")(body)
    spec: WorkflowSpec = flow.spec
    return spec


@dataclass
class Item:
    id: str


@step
async def one(text: str) -> str:
    done.append(text)
    return text


@step
async def two(text: str) -> str:
    done.append(text)
    return text


@step
async def keep(item: Item) -> str:
    return item.id


@workflow
async def ship(order: str) -> str:
    return order


@workflow(name="flow")
async def old() -> None:
    await one("a")
    await two("b")
    await asyncio.gather(one("c"), two("d"))
    await go.wait(timeout="1h", default=0)
    await sleep("1m")
    await ship("o")


@pytest.fixture
def journal() -> list[Turn]:
    run = PureRun(old())
    run.turn()
    run.do()
    run.do()
    run.do()
    run.fire()
    run.fire()
    run.program.close()
    done.clear()
    return run.turns


async def inserted() -> None:
    await one("a")
    await one("new")
    await two("b")


async def removed() -> None:
    await one("a")
    await asyncio.gather(one("c"), two("d"))


async def renamed() -> None:
    await two("a")


async def reordered() -> None:
    await one("a")
    await two("b")
    await asyncio.gather(two("d"), one("c"))


async def other_arguments() -> None:
    await one("A")


async def missing_wait() -> None:
    await one("a")
    await two("b")
    await asyncio.gather(one("c"), two("d"))
    await sleep("1m")


async def ended_early() -> None:
    await one("a")
    await two("b")


async def nothing_asked() -> None:
    await one("a")
    await asyncio.get_running_loop().create_future()


async def other_child() -> None:
    await one("a")
    await two("b")
    await asyncio.gather(one("c"), two("d"))
    await go.wait(timeout="1h", default=0)
    await sleep("1m")
    await ship("another")


CHANGES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "inserted": (inserted, "journal says step 'two' (key 'two')", "asked for step 'one' (key 'one:1') with"),
    "removed": (removed, "step 'two' (key 'two') with {\"text\":\"b\"}", "step 'one' (key 'one:1')"),
    "renamed": (renamed, "step 'one' (key 'one')", "step 'two' (key 'two')"),
    "reordered": (reordered, "step 'one' (key 'one:1')", "step 'two' (key 'two:1')"),
    "other arguments": (other_arguments, '{"text":"a"}', '{"text":"A"}'),
    "missing wait": (missing_wait, "wait for signal 'go' (key 'go')", "sleep 'sleep'"),
    "ended early": (ended_early, "step 'one' (key 'one:1')", "the run's end (complete)"),
    "nothing asked": (nothing_asked, "step 'two' (key 'two')", "asked for nothing"),
    "other child": (other_child, '{"order":"o"}', '{"order":"another"}'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_code_diverges_with_both_sides_and_what_to_do(change: str, journal: list[Turn]) -> None:
    """Contract: the message holds what the journal says, what the code asked for, the line and the cure; nothing is
    executed."""
    body, recorded, asked = CHANGES[change]
    with pytest.raises(Diverged) as caught:
        replay(made(body), journal)
    text = str(caught.value)
    assert recorded in text
    assert asked in text
    assert "run run: at row " in text
    assert "patched('…')" in text
    assert "new version" in text
    assert done == []
    if change not in {"ended early", "nothing asked"}:
        first = body.__code__.co_firstlineno
        lines = [f"{__file__}:{number}" for number in range(first + 1, first + 8)]
        assert any(line in text for line in lines), text


def test_the_unchanged_code_replays(journal: list[Turn]) -> None:
    """Contract: the tests above differ by the change alone."""
    replay(old.spec, journal).close()


async def longer_sleep() -> None:
    await one("a")
    await two("b")
    await asyncio.gather(one("c"), two("d"))
    await go.wait(timeout="5h", default=9)
    await sleep("10m")
    await ship("o")


def test_other_durations_and_defaults_are_no_divergence(journal: list[Turn]) -> None:
    """Contract: the times of the journal stand."""
    replay(made(longer_sleep), journal).close()


def test_a_new_parameter_or_field_with_a_default_is_no_divergence() -> None:
    """Contract: old requests are read with today's eyes."""

    @step(name="keep")
    async def keep_more(item: NewItem, note: str = "none") -> str:
        return item.id

    async def before() -> str:
        return await keep(Item("1"))

    async def after() -> str:
        return await keep_more(NewItem("1"))

    async def differs() -> str:
        return await keep_more(NewItem("1", 2))

    call: Any = workflow(name="flow")(before)
    run = PureRun(call())
    run.turn()
    run.program.close()
    replay(made(after), run.turns).close()
    with pytest.raises(Diverged, match='"count":2'):
        replay(made(differs), run.turns)


@dataclass
class NewItem:
    id: str
    count: int = 1


def test_an_outcome_nobody_asked_for_diverges(journal: list[Turn]) -> None:
    """Contract: a journal of another workflow is not taken for this one's."""

    async def waits_only() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Diverged):
        replay(made(waits_only), journal)


def test_code_after_a_divergence_asks_for_nothing(journal: list[Turn]) -> None:
    """Contract: an author's `except` cannot go on from a divergence."""

    async def catches() -> None:
        try:
            await two("a")
        except BaseException:
            await one("in spite")
            raise

    with pytest.raises(Diverged):
        replay(made(catches), journal)
    assert done == []
