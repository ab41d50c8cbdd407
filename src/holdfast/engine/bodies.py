"""Step bodies: the only place where users' effects happen.

A body is started after the row that records its attempt is durable, and reports one outcome. It can be asked to stop:
an async body is cancelled, a process is ended, a thread is told (`current().is_cancelled`) and its outcome still comes.
It can be left: the same, but its outcome is ignored. A thread that was left occupies the pool until it returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.authoring.script.context import StepScope, running_step
from holdfast.core.commands import RunStep
from holdfast.core.failure import Failure
from holdfast.core.specs import StepSpec
from holdfast.core.step import STOPPED
from holdfast.engine.hooks import Hooks
from holdfast.engine.processes import run_in_process
from holdfast.engine.threads import Threads
from holdfast.engine.transaction_body import run_in_transaction
from holdfast.engine.wheel import Due
from holdfast.turn.outcome import Broke, Outcome, Succeeded, classify


class Body(msgspec.Struct, eq=False):
    """One attempt of a step. `report` is called once, on the event loop."""

    command: RunStep
    scope: StepScope
    report: Callable[[Body, Outcome], None]
    _bodies: Bodies
    has_begun: bool = False
    stop_reason: str = ""
    queued: asyncio.Future[Any] | None = None
    is_stopping: bool = False  # it was asked to stop
    task: asyncio.Task[None] | None = None
    limit: Due | None = None  # when its time is up

    @property
    def is_thread(self) -> bool:
        """Whether the body is a thread, which only its own code can end."""
        return self.command.spec.executor == "thread"

    def stop(self, reason: str) -> None:
        """Asks the body to end; its outcome still comes."""
        if not self.is_stopping:
            self._tell(reason)
            if not self.is_thread or self.is_withdrawn():
                self._cancel()

    def is_withdrawn(self) -> bool:
        """Whether the body has not begun. A withdrawn thread never begins; others end when cancelled."""
        return not self.has_begun or (self.queued is not None and self._bodies.threads.withdraw(self.queued))

    def expire(self, reason: str) -> None:
        """Its time is up: the attempt ends now, whatever a thread still does; its result is ignored."""
        if not self.is_stopping:
            self.leave(reason)

    def leave(self, reason: str) -> None:
        """Leaves the body, including a thread that was only told to stop so far: nothing waits for it now."""
        if not self.is_stopping:
            self._tell(reason)
            self._cancel()
        elif self.is_thread:
            self._cancel()

    def _tell(self, reason: str) -> None:
        self.is_stopping = True
        self.stop_reason = reason
        self.scope.is_cancelled = True

    def _cancel(self) -> None:
        if self.task is None:
            return
        if not self.has_begun:  # cancelled before its first line it cannot report by itself
            self.task.add_done_callback(self._never_began)
        self.task.cancel()

    def _never_began(self, task: asyncio.Task[None]) -> None:
        if not self.has_begun:
            self._bodies.running.discard(self)
            self._bodies.context.copy().run(self.report, self, _stopped(self))


class Bodies:
    """Starts bodies and reports their outcomes on the event loop."""

    def __init__(self, threads: int, hooks: Hooks) -> None:
        self._hooks = hooks
        self._has_hooks = bool(hooks)
        self.threads: Threads = Threads(threads, "holdfast-step", hooks.idle)
        self.running: set[Body] = set()
        self.context: contextvars.Context = contextvars.copy_context()
        """The worker's context variables: never those of the task that starts a run. Each body gets a copy, and what
        follows from a start or from an outcome runs in one, since it may concern other runs."""
        self._in_threads: set[Body] = set()
        self.stand_ins: dict[Callable[..., Any], StepSpec] = {}
        """What runs instead of a step's function: fakes, in tests."""
        self.stand_ins_by_name: dict[str, Callable[[StepSpec], StepSpec]] = {}
        """The same, for every step of a name."""

    def __len__(self) -> int:
        return len(self.running)

    @property
    def left(self) -> tuple[tuple[str, str], ...]:
        """Run and key of each abandoned thread that still runs. From any thread."""
        bodies = [body for body in list(self._in_threads) if body.task is not None and body.task.done()]
        return tuple(sorted((body.scope.run, body.scope.key) for body in bodies))

    def begin(self) -> None:
        """Bodies see the context variables of the caller from now on."""
        self.context = contextvars.copy_context()

    def start(self, body: Body) -> None:
        """Starts the body. It begins in the next pass of the event loop."""
        self.running.add(body)
        loop = asyncio.get_running_loop()
        body.task = loop.create_task(self._run(body), name=body.scope.key, context=self.context.copy())

    def chosen(self, spec: StepSpec) -> StepSpec:
        """The function that runs for a step."""
        found = self.stand_ins.get(spec.function, spec)
        if found is spec and self.stand_ins_by_name and spec.name in self.stand_ins_by_name:
            return self.stand_ins_by_name[spec.name](spec)
        return found

    async def _run(self, body: Body) -> None:
        body.has_begun = True
        command = body.command
        spec = self.chosen(command.spec)
        outcome: Outcome
        try:
            if spec.executor == "async" and not spec.tx and not self._has_hooks:  # most: without one more coroutine
                args, kwargs = spec.arguments.decode(command.args)
                running_step.set(body.scope)
                value = await spec.function(*args, **kwargs)
                outcome = Succeeded(spec.result.encode(value, f"result of {spec.name}"))
            else:
                outcome = await self._elsewhere(spec, body)
        except asyncio.CancelledError:
            outcome = _stopped(body)
        except BaseException as error:  # noqa: BLE001 SystemExit and friends end the step, never the worker
            outcome = classify(error, spec, command.retry)
        self.running.discard(body)
        self.context.copy().run(body.report, body, outcome)
        del outcome  # it may hold the error, whose traceback holds this frame

    async def _elsewhere(self, spec: StepSpec, body: Body) -> Outcome:
        """Runs a body in a transaction, a thread or a process, or with hooks around it."""
        args, kwargs = spec.arguments.decode(body.command.args)
        scope = body.scope
        is_async = spec.executor == "async"
        if spec.executor not in {"async", "thread"}:
            return await self._in_process(body)
        function = self._hooks.wrapped(spec.function, scope, is_async=is_async)
        if spec.tx:
            submit = self.threads.submit_alone
            work_in = functools.partial(run_in_transaction, spec, function, scope, args, kwargs)
            return Succeeded(*await work_in(lambda work: submit(functools.partial(self._in_thread, body, work))))
        if is_async:
            running_step.set(scope)
            return Succeeded(spec.result.encode(await function(*args, **kwargs), f"result of {spec.name}"))
        context = contextvars.copy_context()
        context.run(running_step.set, scope)
        work = functools.partial(context.run, function, *args, **kwargs)
        body.queued = self.threads.run(functools.partial(self._in_thread, body, work))
        return Succeeded(spec.result.encode(await body.queued, f"result of {spec.name}"))

    async def _in_process(self, body: Body) -> Outcome:
        scope = body.scope
        running_step.set(scope)
        with self._hooks.around(scope) as around:
            outcome = await run_in_process(body.command, scope)
            around.failure = None if isinstance(outcome, Succeeded) else outcome.failure
        return outcome

    def _in_thread(self, body: Body, work: Callable[[], Any]) -> Any:
        """Runs on a thread of the pool, from the moment the body begins until it returns."""
        self._in_threads.add(body)
        try:
            return work()
        finally:
            self._in_threads.discard(body)

    def forsake(self) -> None:
        """Releases the threads; what still runs is left alone."""
        self.threads.shutdown()

    async def close(self) -> None:
        """Cancels what still runs and releases the threads without waiting for them."""
        tasks = [body.task for body in self.running if body.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        self.forsake()


def _stopped(body: Body) -> Broke:
    return Broke(Failure(type=STOPPED, message=body.stop_reason or "the body was cancelled"))
