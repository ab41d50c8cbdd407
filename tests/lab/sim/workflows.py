"""The workflows of a simulation: one script that plays any plan of the grammar, others that it starts, and a machine.

A plan is data, so a seed can make any. What its bodies did is written to the ledger of the stage: `BODY` is asked where
a step begins and ends. Which code a process runs, the old or the new, is asked likewise: a deployment changes it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypeAlias

from holdfast import (
    Conflict,
    Flow,
    FlowBuilder,
    Limit,
    OutcomeUnknown,
    Permanent,
    Retry,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    Signal,
    StepFailed,
    Stream,
    Topic,
    Update,
    UpdateRefused,
    batch,
    continue_as,
    current,
    each,
    saga,
    set_attributes,
    sleep,
    start,
    step,
    workflow,
)
from holdfast.authoring.batch.batch_plan import Order
from tests.lab.sim.conversations import line, lines
from tests.lab.sim.parcels import parcels
from tests.lab.sim.stage import FEW, STAGE

Node: TypeAlias = list[Any]
"""`[verb, …]`, see `play_node`."""

news = Signal[int]("news")
rumour = Topic[int]("rumour")
question = Update[int, int]("question", check=lambda n: "negative" if n < 0 else None)
whisper = Stream[str]("whisper")
BIG = 140_000
"""Characters of a payload that goes to a blob."""


NARROW, PACE = Limit("narrow", at_once=2), Limit("pace", rate="40/s", burst=4)


@step(retry=FEW)
async def inserted() -> None:
    """What the new code does and the old one does not."""
    async with STAGE.body():
        pass


@step(retry=FEW)
async def work(label: str, milliseconds: int, fails: int) -> str:
    """Takes its time; its first attempts may fail."""
    async with STAGE.body() as attempt:
        await asyncio.sleep(milliseconds / 1000)
        if attempt <= fails:
            raise ValueError(f"attempt {attempt}")
        return label


@work.undo
async def undo(result: str, label: str, milliseconds: int, fails: int) -> None:
    """The way back."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 2000)


@step(once=True, retry=Retry.none)
async def once(label: str, milliseconds: int) -> str:
    """At most once."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)
        return label


@step(retry=Retry.none)
async def deaf(milliseconds: int) -> None:
    """Goes on though it was cancelled, as a thread does."""
    loop = asyncio.get_running_loop()
    async with STAGE.body():
        until = loop.time() + milliseconds / 1000
        while (left := until - loop.time()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left)


@step(retry=FEW)
async def ponder(n: int) -> int:
    """Twice as much, after a while."""
    async with STAGE.body():
        await asyncio.sleep(n / 100)
        return 2 * n


async def consider(n: int) -> int:
    """Answers a question: at once, after a step, or not at all."""
    match n % 4:
        case 0:
            return 2 * n
        case 1:
            raise UpdateRefused("odd")
        case _:
            return await ponder(n)


@step(retry=FEW)
async def big(label: str) -> str:
    """Its result is a blob."""
    async with STAGE.body():
        return label * (BIG // len(label))


@step(retry=Retry(6, first="100ms"))
async def poisonous(label: str) -> str:
    """Ends its worker, sometimes."""
    async with STAGE.body():
        await asyncio.sleep(0.001)
        STAGE.poison()
        await asyncio.sleep(0)
        return label


@step(retry=Retry.none)
async def refuse(label: str) -> str:
    """Never succeeds."""
    async with STAGE.body():
        raise Permanent(label)


@step(retry=FEW)
async def deal(item: tuple[str, int]) -> str:
    """One of many."""
    label, milliseconds = item
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)
        return label


@step(retry=Retry.none, timeout="100ms")
async def brief(label: str, milliseconds: int) -> str:
    """Is given little time."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)
        return label


@step(retry=FEW)
async def tell(label: str, count: int, milliseconds: int, fails: int) -> str:
    """Says what it does, part by part; its first attempts may fail half way."""
    async with STAGE.body() as attempt:
        for number in range(count):
            if attempt <= fails and number > count // 2:
                raise ValueError(f"attempt {attempt}")
            whisper.send(f"{label}/{number}")
            if milliseconds:
                await asyncio.sleep(milliseconds / 1000)
            if number % 7 == 3:
                await whisper.flush()
        return label


@step(input="pieces", retry=FEW)
async def reply(label: str, turn: int, size: int, fails: int, said: list[str]) -> str:
    """Is given all that was said, and says whether that is so; its first attempts may fail."""
    async with STAGE.body() as attempt:
        await asyncio.sleep(0.001)
        if attempt <= fails:
            raise ValueError(f"attempt {attempt}")
        return "heard" if said == lines(label, turn, size) else f"heard {said!r:.200}"


@reply.undo
async def unsay(result: str, label: str, turn: int, size: int, fails: int, said: list[str]) -> None:
    """Is given the same."""
    async with STAGE.body():
        if said != lines(label, turn, size):
            raise Permanent(f"heard {said!r:.200}")


@step(retry=FEW, limits=[NARROW.by("key"), PACE])
async def squeeze(label: str, key: str, milliseconds: int, fails: int) -> str:
    """Waits for its place and its token."""
    async with STAGE.body() as attempt:
        await asyncio.sleep(milliseconds / 1000)
        if attempt <= fails:
            raise ValueError(f"attempt {attempt}")
        return label


@step(retry=FEW)
async def inside(label: str, milliseconds: int) -> str:
    """What a guard stands around."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)
        return label


@step(retry=FEW)
async def leave(milliseconds: int) -> None:
    """The clean-up of a guard, which a cancel does not keep from its end."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)


@workflow
async def play(plan: list[Node], rounds: int = 0) -> list[Any]:
    """Plays a plan, and answers questions meanwhile; `rounds` times it begins anew."""
    question.serve(consider)
    heard = [await play_node(node, index) for index, node in enumerate(plan)]
    if rounds:
        continue_as(play(plan, rounds - 1))
    return heard


async def play_node(node: Node, index: int = -2) -> Any:
    """One node; what it gives does not depend on who was faster, but where `model` says so."""
    if index == STAGE.inserts():
        await inserted()
    verb, rest = node[0], node[1:]
    match verb:
        case "step":
            return await work(*rest)
        case "sequence":
            return [await play_node(each) for each in rest]
        case "parallel":
            return await asyncio.gather(*(play_node(each) for each in rest))
        case "sleep":
            await sleep(rest[0] / 1000)
            return None
        case "signal":
            return await news.wait()
        case "patient":
            return await news.wait(timeout=rest[0] / 1000, default=-1)
        case "child":
            return await play(rest)
        case "once":
            try:
                return await once(*rest)
            except OutcomeUnknown:
                return "unknown"
        case "race":
            try:
                async with asyncio.timeout(rest[0] / 1000):
                    return await work(*rest[1:])
            except TimeoutError:
                return "late"
        case "saga":
            return await play_saga(rest)
        case "big":
            return (await big(*rest))[: len(rest[0])]
        case "poison":
            return await poisonous(*rest)
        case _:
            return await play_more(verb, rest)


async def play_more(verb: str, rest: list[Any]) -> Any:
    """The nodes in which a run has to do with others, or with time."""
    match verb:
        case "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(play_node(node)) for node in rest]
            return [task.result() for task in tasks]
        case "each":
            return await each(deal, [(label, milliseconds) for label, milliseconds in rest[1:]], limit=rest[0])
        case "topic":
            return await rumour.wait(timeout=rest[0] / 1000, default=-1)
        case "publish":
            return rumour.publish(rest[0])
        case "talk":
            partner = start(play([["signal"]]))
            tip = "tip" if rest[0] % 3 else None
            await (partner.signal(news, rest[0], id=tip) if rest[0] % 2 else news.send(partner.id, rest[0], id=tip))
            heard = await partner.result()
            if tip is not None:
                await tell_again(partner.id, rest[0], tip)
            await tell_the_gone(partner.id)
            return heard
        case "detached":
            _ = start(play(rest), on_cancel="cancel")
            return None
        case "guard":
            try:
                return await inside(*rest[:2])
            finally:
                await leave(rest[2])
        case "stubborn":
            return await stubborn(rest[1:], rest[0])
        case "flow":
            return await bouquet({"label": rest[0], "count": rest[1]})
        case _:
            return await play_in_time(verb, rest)


async def tell_again(run: str, number: int, tip: str) -> None:
    """The same message is a repeat, also for a run that has ended. Another one under its id is a conflict, as long as
    the inbox keeps what was sent."""
    await news.send(run, number, id=tip)
    with suppress(Conflict):
        await news.send(run, number + 1, id=tip)


async def tell_the_gone(run: str) -> None:
    """Signals to a run that has ended and to one that never was: who awaits them is told."""
    _ = news.send(run, -1)
    for to in (run, f"{run}/nobody"):
        try:
            await news.send(to, -1)
        except (RunFinished, RunNotFound):
            continue
        raise AssertionError(f"a signal to {to} was delivered")


async def play_in_time(verb: str, rest: list[Any]) -> Any:
    """The nodes that may come too late, or not at all."""
    match verb:
        case "errand":
            try:
                return await errand(rest)
            except RunCancelled:
                return "cancelled"
        case "hasty":
            try:
                return await hasty(rest)
            except RunFailed as error:
                return error.type
        case "many":
            return await play_batch(*rest)
        case "mark":
            set_attributes(mark=rest[0])
            return None
        case "brief":
            try:
                return await brief(*rest)
            except StepFailed:
                return "late"
        case "gamble":
            return await gamble(*rest)
        case "squeeze":
            return await asyncio.gather(*(squeeze(label, *rest[0]) for label in rest[1:]))
        case "tell":
            whisper.send(f"{rest[0]} begins")
            return await tell(*rest)
        case "converse":
            return await converse(*rest)
        case _:
            raise AssertionError(verb)


async def converse(label: str, turns: int, size: int, fails: int) -> str:
    """Calls of a step with a list that grows."""
    said: list[str] = []
    for turn in range(1, turns + 1):
        said.append(line(label, turn, size))
        heard = await reply(label, turn, size, fails, list(said))
        if heard != "heard":
            return heard
    return label


async def play_batch(patience: int, concurrency: int, order: Order, *items: list[Any]) -> Any:
    """A batch of the run's own: of a step, or, round by round, of a workflow. It may take too long."""
    try:
        async with asyncio.timeout(patience / 1000 if patience else None):
            if order == "depth":
                pairs = [(label, milliseconds) for label, milliseconds in items]
                return await batch(deal, pairs, concurrency=concurrency)
            calls = [play([["step", *item, 0], ["step", f"{item[0]}'", 1, 0]]) for item in items]
            return await batch(play, calls, concurrency=concurrency, order=order)
    except TimeoutError:
        return "late"


async def gamble(label: str, milliseconds: int, patience: int, deafness: int) -> str:
    """Leaves the bodies of its steps unless somebody calls: then it waits for the one that may run once. Only for the
    end of a plan: what it leaves would disturb what follows."""
    betting, called = asyncio.ensure_future(once(label, milliseconds)), asyncio.ensure_future(news.wait())
    others = [asyncio.ensure_future(sleep(patience / 1000))]
    if deafness:
        others.append(asyncio.ensure_future(deaf(deafness)))
    done, _ = await asyncio.wait([betting, called, *others], return_when=asyncio.FIRST_COMPLETED)
    if betting not in done and called not in done:
        return "left"
    try:
        return await betting
    except OutcomeUnknown:
        return "unknown"


@workflow(retry=Retry(5, first="100ms", factor=2, ceiling="1s"))
async def stubborn(plan: list[Node], fails: int) -> list[Any]:
    """Its first passes fail; what they did is done."""
    heard = [await play_node(node) for node in plan]
    if current().attempt <= fails:
        raise ValueError(f"pass {current().attempt}")
    return heard


@workflow
async def errand(plan: list[Node]) -> list[Any]:
    """May be called off by a client while its parent waits for it."""
    return [await play_node(node) for node in plan]


@workflow(deadline="700ms")
async def hasty(plan: list[Node]) -> list[Any]:
    """Has little time."""
    return [await play_node(node) for node in plan]


async def play_saga(nodes: list[Node]) -> Any:
    """Everything, and then nothing of it."""
    try:
        async with saga():
            for node in nodes:
                await play_node(node)
            await refuse("no")
    except StepFailed:
        return "undone"
    return "kept"


# -- flows -------------------------------------------------------------------------------------------------------------


@step(retry=FEW)
async def name_parts(label: str, count: int) -> list[str]:
    """As many names."""
    async with STAGE.body():
        return [f"{label}-{number}" for number in range(count)]


@step(retry=FEW)
async def tie(text: str) -> str:
    """One of a flow's."""
    async with STAGE.body():
        await asyncio.sleep(0.005)
        return f"<{text}>"


def _flows() -> tuple[Flow[Any, Any], Flow[Any, Any]]:
    """A flow whose steps run side by side, and for each of some items, and one that is a part of it."""
    inner = FlowBuilder("ribbon")
    knot = inner.call("knot", tie, given={"text": inner.input["label"]})
    ribbon = inner.build(output={"knot": knot})
    outer = FlowBuilder("bouquet")
    label = outer.input["label"]
    parts = outer.call("parts", name_parts, given={"label": label, "count": outer.input["count"]})
    left = outer.call("left", tie, given={"text": label})
    tied = outer.call("tied", tie, given={"text": outer.item}, each=parts, limit=2)
    bound = outer.call("bound", ribbon, given={"label": left})
    return outer.build(output={"tied": tied, "left": left, "bound": bound}), ribbon


bouquet, ribbon = _flows()


SERVED = (play, stubborn, errand, hasty, bouquet, ribbon, parcels)
"""What every worker holds."""
