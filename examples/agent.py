"""An agent: it streams what the model says, and asks a person before it uses a tool.

    python -m examples.agent

The model is an HTTP API that streams JSON lines; here it is `fake_model`. What the model said is recorded, so after a
crash the agent continues where it was, and no call is paid twice.
"""

from __future__ import annotations

import asyncio
import os

import httpx
import msgspec

from examples.fake_model import fake_model
from holdfast import App, Retry, RunVar, Signal, Stream, step, workflow

tokens = Stream[str]("tokens")
allowed = Signal[bool]("allowed")
wanted = RunVar[str]("wanted")
"""The tool that the agent wants to use, for the person who decides."""

TURNS = 10


class Message(msgspec.Struct, frozen=True):
    role: str
    text: str


class Delta(msgspec.Struct, frozen=True):
    """One line of the model's answer."""

    text: str = ""
    tool: str = ""
    argument: str = ""


@step(input="hash", retry=Retry(5, first="100ms", on=httpx.TransportError), timeout="2m")
async def think(conversation: list[Message]) -> Delta:
    """One call of the model. The conversation grows with every call: the journal keeps its hash, not a copy each."""
    said = ""
    async with httpx.AsyncClient(base_url=os.environ["MODEL_URL"]) as http:
        body = msgspec.json.encode({"messages": conversation})
        async with http.stream("POST", "/chat", content=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                delta = msgspec.json.decode(line, type=Delta)
                if delta.tool:
                    return msgspec.structs.replace(delta, text=said)
                tokens.send(delta.text)  # readers see it within 50 ms
                said += delta.text
    return Delta(said)


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
        conversation.append(Message("assistant", said.text))
        if not said.tool:
            return said.text
        conversation.append(Message("tool", await use(said.tool, said.argument)))
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
