"""Hooks around the body of a step, entered in order and left in reverse; and in threads that have run out of work.

A hook's errors are reported once and otherwise ignored: the outcome of the body counts, whatever hooks do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Literal, Self

from holdfast.authoring.hook import Hook, has_idle, has_step
from holdfast.authoring.script.context import StepScope
from holdfast.authoring.script.verbs import Current, current_of
from holdfast.core.failure import Failure
from holdfast.errors import StepFailed
from holdfast.ports.facts import HookFailed
from holdfast.ports.telemetry import Telemetry


class Hooks:
    """The hooks of an app that wrap bodies; usually none."""

    def __init__(self, hooks: Sequence[Hook], telemetry: Telemetry) -> None:
        self._all = tuple(hook for hook in hooks if has_step(hook))
        self._resting = tuple(hook for hook in hooks if has_idle(hook))
        self._telemetry = telemetry
        self._failed: set[tuple[str, str]] = set()
        self.idle: Callable[[], None] | None = self._idle if self._resting else None
        """To be called in a thread that has run out of bodies; None if no hook wants to know."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def around(self, scope: StepScope) -> Around:
        """The context of one attempt."""
        return Around(self._all, current_of(scope), self._failed_in)

    def wrapped(self, function: Callable[..., Any], scope: StepScope, *, is_async: bool) -> Callable[..., Any]:
        if not self._all:
            return function
        around = self.around(scope)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with around:
                return await function(*args, **kwargs)

        def called(*args: Any, **kwargs: Any) -> Any:
            with around:
                return function(*args, **kwargs)

        return awaited if is_async else called

    def _idle(self) -> None:
        for hook in self._resting:
            try:
                hook.idle()
            except BaseException as error:  # noqa: BLE001 a hook never hurts a thread, whatever it raises
                self._failed_in(hook, error, "idle()")

    def _failed_in(self, hook: Hook, error: BaseException, place: str = "step()") -> None:
        name = type(hook).__name__
        if (name, place) not in self._failed:
            self._failed.add((name, place))
            self._telemetry.tell(HookFailed(name, place, error))


class Around:
    """The hooks around one attempt. `failure`: of a body that raised where an exception cannot propagate, such as
    another process."""

    def __init__(self, hooks: Sequence[Hook], at: Current, failed: Callable[[Hook, BaseException], None]) -> None:
        self._hooks = hooks
        self._at = at
        self._failed = failed
        self._entered: list[tuple[Hook, AbstractContextManager[object]]] = []
        self.failure: Failure | None = None

    def __enter__(self) -> Self:
        for hook in self._hooks:
            try:
                manager = hook.step(self._at)
                manager.__enter__()
            except BaseException as error:  # noqa: BLE001 a hook never hurts a run, whatever it raises
                self._failed(hook, error)
            else:
                self._entered.append((hook, manager))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is None and self.failure is not None:
            error = self._error_of(self.failure)
            kind = type(error)
        while self._entered:
            hook, manager = self._entered.pop()
            try:
                manager.__exit__(kind, error, trace)
            except BaseException as raised:  # noqa: BLE001 likewise
                if raised is not error:  # one that passes the body's error on is right
                    self._failed(hook, raised)
        return False

    def _error_of(self, failure: Failure) -> StepFailed:
        return StepFailed(
            f"step {self._at.step} failed: {failure.type}: {failure.message}",
            step=self._at.step,
            attempts=self._at.attempt,
            type=failure.type,
            message=failure.message,
            traceback=failure.traceback,
        )
