"""A flow under an app: a script that asks for each step as soon as its inputs are known.

The driver is a coroutine on the script's deterministic loop, so replay, retries, timers, children, undoing and every
promise about crashes are the script's. For each step it counts the steps it still waits for. When a step ends, only
those that wait for it are checked, so the work of a run is proportional to its steps and references. Which steps are
skipped is derived again on replay and is not journaled.

A step's key is its name; those of the items of an `each` are `boxes.0`, `boxes.1`, …
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from holdfast.authoring.flow.actions import Performer
from holdfast.authoring.flow.call_targets import StepTarget
from holdfast.authoring.flow.evaluation import evaluate, is_true
from holdfast.authoring.flow.expressions import Expression, Fields, Items, references
from holdfast.authoring.flow.flow_definition import Invoke
from holdfast.authoring.flow.flow_order import Node, Plan
from holdfast.authoring.flow.schema_checks import check_output
from holdfast.authoring.script.verdicts import marked
from holdfast.core.plurals import counted
from holdfast.errors import FlowFailed, HoldfastError, RunFailed, StepFailed

if TYPE_CHECKING:
    from holdfast.authoring.flow.call_targets import Target
    from holdfast.authoring.script.script_program import ScriptProgram

AT_ONCE = 100
"""Maximum number of steps of one run whose bodies run at once. An `each` counts as one, and has its own limit."""

Stage: TypeAlias = Literal["asked", "gate", "work", "running", "otherwise", "fallback"]


class Driver:
    """One pass of a flow."""

    def __init__(
        self, plan: Plan, targets: dict[str, Target], program: ScriptProgram, given: Any, variables: dict[str, Any]
    ) -> None:
        self._plan = plan
        self._program = program
        self._results: dict[str, Any] = {}
        self._known: dict[str, Any] = {"input": given, "steps": self._results, "vars": variables}
        self._performer = Performer(program, targets, self._known)
        self._stages: dict[int, Stage] = {}
        self._settled: set[int] = set()
        self._skipped: set[str] = set()
        self._waits_for: dict[int, int] = {}
        self._waited_for_by: dict[int, list[int]] = {}
        self._ready: deque[int] = deque()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._targets = targets
        self._in_work = 0
        self._in_line: deque[Node] = deque()
        self._over: asyncio.Future[None] = program.loop.outcome_future()
        self.looked_at: int = 0
        """Steps and references checked so far: the work of a run."""

    async def run(self) -> Any:
        for place in self._plan.asked:
            self._ask(place)
        self._go_on()
        try:
            await self._over
        finally:
            left = [task for task in self._tasks.values() if not task.done()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        return self._output()

    # -- the ready set -------------------------------------------------------------------------------------------------

    def _ask(self, place: int) -> None:
        if place not in self._stages:
            self._stages[place] = "asked"
            self._ready.append(place)

    def _wait(self, node: Node, stage: Stage, places: tuple[int, ...]) -> None:
        """Continues the step when all of these have ended."""
        self._stages[node.place] = stage
        left = 0
        for other in places:
            self.looked_at += 1
            if other not in self._settled:
                left += 1
                self._waited_for_by.setdefault(other, []).append(node.place)
                self._ask(other)
        self._waits_for[node.place] = left
        if not left:
            self._ready.append(node.place)

    def _go_on(self) -> None:
        """Advances every step as far as possible. If nothing is left to do and the flow has not ended, that is an
        error, never a hang."""
        while self._ready and not self._over.done():
            self.looked_at += 1
            node = self._plan.nodes[self._ready.popleft()]
            try:
                self._advance(node)
            except Exception as error:  # noqa: BLE001 an expression without a value is the step's failure
                self._failed(node, error)
        if self._over.done():
            return
        if len(self._settled) == len(self._stages):
            self._over.set_result(None)
        elif not self._tasks:
            self._over.set_exception(self._deadlock())

    def _advance(self, node: Node) -> None:
        step = node.step
        match self._stages[node.place]:
            case "asked":
                self._wait(node, "gate", node.gate)
            case "gate":
                if step.when is None or is_true(step.when, self._known):
                    self._wait(node, "work", node.work)
                else:
                    self._skip(node)
            case "work":
                if any(self._plan.nodes[place].step.name in self._skipped for place in node.firm):
                    self._skip(node)
                else:
                    self._begin(node)
            case "otherwise":
                assert step.otherwise is not None
                self._settle(node, evaluate(step.otherwise, self._known))
            case "fallback":
                assert step.fallback is not None
                self._settle(node, evaluate(step.fallback, self._known))
            case "running":
                raise AssertionError(f"step {step.name} was asked for twice")

    def _skip(self, node: Node) -> None:
        if node.step.otherwise is not None:
            self._wait(node, "otherwise", node.otherwise)
        else:
            self._skipped.add(node.step.name)
            self._settle(node, None, is_there=False)

    def _begin(self, node: Node) -> None:
        """Begins the step's work, or queues it if the maximum number of bodies is running. Steps that only wait are not
        counted, so a step that others wait for always gets its turn."""
        self._stages[node.place] = "running"
        if not self._has_body(node):
            self._start(node)
        elif self._in_work < AT_ONCE:
            self._in_work += 1
            self._start(node)
        else:
            self._in_line.append(node)

    def _has_body(self, node: Node) -> bool:
        does = node.step.does
        return isinstance(does, Invoke) and isinstance(self._targets[does.target], StepTarget)

    def _start(self, node: Node) -> None:
        self._tasks[node.place] = self._program.loop.create_task(self._perform(node), name=node.step.name)

    async def _perform(self, node: Node) -> None:
        try:
            value = await self._performer.perform(node.step)
        except Exception as error:  # noqa: BLE001 whatever it is, it is the step's failure
            self._failed(node, error)
        else:
            self._settle(node, value)
        del self._tasks[node.place]
        if self._has_body(node):
            self._in_work -= 1
            if self._in_line and not self._over.done():
                self._in_work += 1
                self._start(self._in_line.popleft())
        self._go_on()

    def _settle(self, node: Node, value: Any, *, is_there: bool = True) -> None:
        if is_there:
            self._results[node.step.name] = value
        self._settled.add(node.place)
        for other in self._waited_for_by.pop(node.place, ()):
            self.looked_at += 1
            self._waits_for[other] -= 1
            if not self._waits_for[other]:
                self._ready.append(other)

    def _failed(self, node: Node, error: Exception) -> None:
        """Uses the step's `on_error` value, or ends the run."""
        is_own = self._stages[node.place] in {"work", "running"}
        if is_own and node.step.fallback is not None:
            self._wait(node, "fallback", node.fallback)
        elif not self._over.done():
            self._over.set_exception(self._failure(node.step.name, error))

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _output(self) -> Any:
        definition = self._plan.definition
        try:
            value = self._evaluated(definition.output)
            check_output(definition, value)
        except HoldfastError as error:
            raise self._failure("", error) from error
        return value

    def _evaluated(self, tree: Expression) -> Any:
        """The value of the output; a part that reads a skipped step is null."""
        match tree:
            case Fields(fields):
                return {key: self._evaluated(part) for key, part in fields}
            case Items(items):
                return [self._evaluated(part) for part in items]
            case _:
                if self._skipped and not self._skipped.isdisjoint(references(tree).firm_steps()):
                    return None
                return evaluate(tree, self._known)

    def _failure(self, step: str, error: Exception) -> BaseException:
        failed = _flow_failed(self._plan.definition.name, step, error)
        redaction = self._program.redaction
        if redaction:  # an expression that does not fit says what it was given
            failed.args = (redaction.text(str(failed)),)
            failed.message = redaction.text(failed.message)
        return marked(failed)

    def _deadlock(self) -> BaseException:
        names = [self._plan.nodes[place].step.name for place in self._stages if place not in self._settled]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return marked(
            FlowFailed(
                f"flow {self._plan.definition.name}: nothing runs and nothing can begin, but {shown} did not end: they "
                "wait for each other. Its definition was not checked: see `holdfast flow check`.",
                flow=self._plan.definition.name,
                type="Deadlock",
            )
        )


def _flow_failed(flow: str, step: str, error: Exception) -> FlowFailed:
    where = f"flow {flow}: step {step} failed" if step else f"flow {flow}: its output could not be computed"
    if isinstance(error, StepFailed):
        kind, message, attempts = error.type, error.message, error.attempts
        text = f"{where} after {counted(attempts, 'attempt')}: {kind}: {message}"
    elif isinstance(error, RunFailed):
        kind, message, attempts = error.type, error.message, 1
        text = f"{where}: run {error.run_id} failed: {kind}: {message}"
    else:
        kind, message, attempts = type(error).__name__, str(error), 1
        text = f"{where}: {kind}: {message}"
    return FlowFailed(text, flow=flow, step=step, type=kind, message=message, attempts=attempts)
