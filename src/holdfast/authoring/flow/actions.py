"""What one step of a flow does: a call, a wait, a sleep, an approval, or any of these for each item of a list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_never

from holdfast.authoring.flow.approval import approval
from holdfast.authoring.flow.call_targets import ChildTarget, Target
from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.flow_definition import Approve, Each, FlowStep, Invoke, Sleep, Wait
from holdfast.authoring.script.calls import NO_DEFAULT, SleepCall, WaitCall
from holdfast.authoring.script.place import Place
from holdfast.core.durations import parse_duration
from holdfast.core.guards import is_list
from holdfast.core.instants import instant_after
from holdfast.core.payload import Shape
from holdfast.core.plurals import counted
from holdfast.errors import ExpressionFailed, HoldfastError, StepLimitExceeded

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram

LIMIT = 50
"""Default number of items of an `each` that run at once."""

ANYTHING: Shape[Any] = Shape(Any, what="a signal")


class Performer:
    """Performs steps. `known` is what expressions may read: it grows while the flow runs."""

    def __init__(self, program: ScriptProgram, targets: Mapping[str, Target], known: dict[str, Any]) -> None:
        self._program = program
        self._targets = targets
        self._known = known

    async def perform(self, step: FlowStep) -> Any:
        """Returns the step's result, or raises its error."""
        if step.each is None:
            return await self._do(step, step.name, self._known)
        return await self._for_each(step, step.each)

    async def _for_each(self, step: FlowStep, each: Each) -> list[Any]:
        """Results in the order of the items. The first failure that has no `on_error` value cancels the rest."""
        items = evaluate(each.over, self._known)
        if not is_list(items):
            raise ExpressionFailed(f"each: in: is {type(items).__name__}, not a list")
        limit = self._program.settings.step_limit
        if limit is not None and len(items) > limit:  # before the first of them begins, not in the middle
            raise StepLimitExceeded(
                f"each: {counted(len(items), 'item')}, and a run has at most {counted(limit, 'step')} besides those "
                "its flow declares: give it fewer, start a batch, or raise App(step_limit=…)",
                limit=limit,
                count=len(items),
            )
        results: list[Any] = [None] * len(items)
        waiting = iter(enumerate(items))

        async def branch() -> None:
            for index, item in waiting:
                known = {**self._known, "item": item}
                try:
                    results[index] = await self._do(step, f"{step.name}.{index}", known)
                except Exception as error:
                    if step.fallback is None:
                        error.add_note(f"item {index} of step {step.name}")
                        raise
                    results[index] = evaluate(step.fallback, known)

        branches = [asyncio.ensure_future(branch()) for _ in range(min(each.limit or LIMIT, len(items)))]
        try:
            await asyncio.gather(*branches)
        finally:
            left = [task for task in branches if not task.done()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        return results

    async def _do(self, step: FlowStep, key: str, known: Mapping[str, Any]) -> Any:
        does = step.does
        match does:
            case Invoke():
                return await self._call(step, does, key, known)
            case Wait():
                return await self._signal(step, does, key, known)
            case Sleep():
                return await self._sleep(does, key, known)
            case Approve():
                return await approval(self._program, does, step.name, key, known)
            case _:
                assert_never(does)

    async def _call(self, step: FlowStep, does: Invoke, key: str, known: Mapping[str, Any]) -> Any:
        target = self._targets[does.target]
        given = evaluate(does.given, known)
        variables = evaluate(does.variables, known)
        if not isinstance(target, ChildTarget) or step.retry is None:
            return await target.call(self._program, key, given, variables, step.retry, step.timeout)
        failures = 0
        while True:  # a step's attempts are the engine's; a child that failed is another child the next time
            again = f"{key}.again{failures}" if failures else key
            try:
                return await target.call(self._program, again, given, variables, None, step.timeout)
            except HoldfastError:
                failures += 1
                until = step.retry.next_at(failures, self._program.at, 0)
                if until is None:
                    raise
            await SleepCall(self._program, self._program.take_key(f"{key}.pause{failures}"), HERE, until)

    async def _signal(self, step: FlowStep, does: Wait, key: str, known: Mapping[str, Any]) -> Any:
        return await WaitCall(
            self._program,
            self._program.take_key(key),
            HERE,
            kind="signal",
            name=does.signal,
            shape=ANYTHING,
            timeout=does.timeout if does.timeout is not None else step.timeout,
            default=NO_DEFAULT if does.default is None else evaluate(does.default, known),
        )

    async def _sleep(self, does: Sleep, key: str, known: Mapping[str, Any]) -> None:
        duration: timedelta = parse_duration(evaluate(does.duration, known), what="sleep")
        program = self._program
        await SleepCall(program, program.take_key(key), HERE, instant_after(program.at, duration, "sleep"))


HERE = Place(Performer.perform.__code__, 0)
