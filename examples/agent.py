"""An agent: it streams what the model says, and asks a person before it uses a tool.

    python -m examples.agent

The model is an HTTP API that streams JSON lines; here it is `fake_model`. With MODEL=openai:gpt-5-mini, or another name
that Pydantic AI knows, it is that one (`pydantic_ai_model`). What the model said is recorded, so after a crash the
agent continues where it was, and no call is paid twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx
import msgspec

from examples.conversation import Delta, Message
from examples.fake_model import fake_model
from holdfast import App, Retry, RunVar, Signal, Stream, step, workflow

tokens = Stream[str]("tokens")
allowed = Signal[bool]("allowed")
wanted = RunVar[str]("wanted")
"""The tool that the agent wants to use, for the person who decides."""

TURNS = 10


@step(input="pieces", retry=Retry(5, first="100ms", on=(httpx.TransportError, ConnectionError)), timeout="2m")
async def think(conversation: list[Message]) -> Delta:
    """One call of the model. The conversation grows with every call, and is stored once."""
    said = ""
    if model := os.environ.get("MODEL"):
        from examples.pydantic_ai_model import answer  # only here is Pydantic AI needed

        deltas = answer(model, conversation, TOOLS)
    else:
        deltas = ask(conversation)
    async with aclosing(deltas):
        async for delta in deltas:
            if delta.tool:
                return msgspec.structs.replace(delta, text=said)
            if delta.text:
                tokens.send(delta.text)  # readers see it within 50 ms
                said += delta.text
    return Delta(said)


async def ask(conversation: list[Message]) -> AsyncGenerator[Delta]:
    """The answer of an API that streams JSON lines."""
    async with httpx.AsyncClient(base_url=os.environ["MODEL_URL"]) as http:
        body = msgspec.json.encode({"messages": conversation})
        async with http.stream("POST", "/chat", content=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                yield msgspec.json.decode(line, type=Delta)


@step
async def weather(place: str) -> str:
    return f"18 degrees in {place}"


TOOLS = {"weather": weather}
"""What the model may ask for. A name that is not here is answered, not called."""


@workflow(accepts=(allowed,))
async def agent(task: str) -> str:
    conversation = [Message("user", task)]
    for _ in range(TURNS):
        said = await think(conversation)
        conversation.append(Message("assistant", said.text, said.tool, said.argument))
        if not said.tool:
            return said.text
        conversation.append(Message("tool", await use(said.tool, said.argument), said.tool))
    return "no answer"


async def use(name: str, argument: str) -> str:
    """The tool's answer, once a person agreed."""
    if name not in TOOLS:
        return f"there is no tool {name}"
    wanted.set(f"{name}({argument})")
    if not await allowed.wait(timeout="1d", default=False):
        return f"the tool {name} was not allowed"
    return await TOOLS[name](argument)


app = App("memory://", workflows=[agent])


async def main() -> None:
    async with app.worker():
        run = await app.start(agent("How is the weather in Kiel?"))
        await run.signal(allowed, True)
        async for part in run.read(tokens, only="completed"):
            print(part.value, end="", flush=True)
        print()


if __name__ == "__main__":
    with fake_model() as url:
        os.environ["MODEL_URL"] = url
        asyncio.run(main())
