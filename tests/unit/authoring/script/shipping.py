"""Steps and a workflow for tests of programs. `calls` lists the bodies that were called."""

from __future__ import annotations

from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.workflows import workflow

go = Signal[int]("go")

calls: list[str] = []


@step
async def echo(text: str) -> str:
    calls.append(text)
    return text


@echo.undo
async def unecho(done: str, text: str) -> None:
    calls.append(f"undo {text}")


class Refused(Exception): ...


@workflow(raises=Refused)
async def ship(order: str, express: bool = False) -> str:
    return order
