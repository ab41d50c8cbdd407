"""`Hook`: an app author's code that wraps every step's body and is told what happens."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from holdfast.authoring.script.verbs import Current
from holdfast.errors import DefinitionError
from holdfast.ports.facts import Fact

__all__ = ["Hook", "check_hooks"]


class Hook:
    """What happens around your steps: spans, error reports, metrics. Override what you need, and give an instance to
    `App(hooks=[…])`.

    A hook is never called on replay. Its errors are logged once and affect neither the step, nor the run, nor other
    hooks.
    """

    def step(self, at: Current) -> AbstractContextManager[object]:
        """A context manager that is entered before each attempt of a step and left after it, in the task or thread of
        the body. Its `__exit__` sees the error; if it returns true, the step still fails. A step with
        `executor="process"` runs in another process: the context manager is around the wait for it."""
        return nullcontext()

    def on(self, fact: Fact) -> None:
        """Something happened: one of the classes of `holdfast.facts`. Called from any thread, often from that of the
        event loop: return quickly, and hand slow work to a thread of your own."""

    def idle(self) -> None:
        """A thread that ran `def` steps has nothing more to do for now. Called in that thread, to close what belongs to
        it, such as a database connection."""


def check_hooks(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks of an app. Raises `DefinitionError` for one that would never be called."""
    found = tuple(hooks)
    for hook in found:
        if isinstance(hook, type):
            raise DefinitionError(f"App(hooks=[…]) takes instances: write {hook.__name__}(), with parentheses")
        if not isinstance(hook, Hook):
            raise DefinitionError(f"App(hooks=[…]) takes instances of subclasses of holdfast.Hook, not {hook!r}")
        name = type(hook).__name__
        if not has_step(hook) and not has_on(hook) and not has_idle(hook):
            raise DefinitionError(
                f"hook {name} overrides none of step(), on() and idle(), so it would never be called. Override one; "
                "check the spelling of the method names."
            )
        for method in ("step", "on", "idle"):
            called = getattr(type(hook), method)
            if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
                raise DefinitionError(f"hook {name}: {method}() is called without await: write `def`, not `async def`")
    return found


def has_step(hook: Hook) -> bool:
    """Whether the hook wraps steps."""
    return type(hook).step is not Hook.step


def has_on(hook: Hook) -> bool:
    """Whether the hook listens to facts."""
    return type(hook).on is not Hook.on


def has_idle(hook: Hook) -> bool:
    """Whether the hook wants to know of idle threads."""
    return type(hook).idle is not Hook.idle
