"""The agent's model through Pydantic AI, which knows the APIs of most providers:

    pip install "pydantic-ai-slim[openai]"
    MODEL=openai:gpt-5-mini python -m examples.agent

Pydantic AI makes the call and streams the answer. What is said, allowed and paid for once is the workflow's business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from examples.conversation import Delta, Message

ONE_TEXT = {"type": "object", "properties": {"argument": {"type": "string"}}, "required": ["argument"]}
BUSY = 429


async def answer(model: Model | str, conversation: Sequence[Message], tools: Iterable[str]) -> AsyncGenerator[Delta]:
    """One call of the model. What is worth another try is a `ConnectionError`."""
    known = [ToolDefinition(name=name, parameters_json_schema=ONE_TEXT) for name in tools]
    parameters = ModelRequestParameters(function_tools=known)
    try:
        async with model_request_stream(model, history(conversation), model_request_parameters=parameters) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    yield Delta(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield Delta(event.delta.content_delta)
            for part in stream.get().parts:
                if isinstance(part, ToolCallPart):
                    yield Delta(tool=part.tool_name, argument=str(part.args_as_dict().get("argument", "")))
    except ModelAPIError as error:
        if isinstance(error, ModelHTTPError) and error.status_code < 500 and error.status_code != BUSY:
            raise
        raise ConnectionError(str(error)) from error


def history(conversation: Sequence[Message]) -> list[ModelMessage]:
    """The conversation in Pydantic AI's words. A tool's answer follows the call that asked for it."""
    found: list[ModelMessage] = []
    for number, said in enumerate(conversation):
        match said.role:
            case "user":
                found.append(ModelRequest(parts=[UserPromptPart(said.text)]))
            case "assistant":
                call = [ToolCallPart(said.tool, {"argument": said.argument}, tool_call_id=f"{number}")]
                found.append(ModelResponse(parts=[TextPart(said.text), *(call if said.tool else [])]))
            case _:
                found.append(ModelRequest(parts=[ToolReturnPart(said.tool, said.text, tool_call_id=f"{number - 1}")]))
    return found
