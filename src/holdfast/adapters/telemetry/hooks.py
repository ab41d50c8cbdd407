"""A user's `Hook` as a listener for all facts."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.adapters.telemetry.listeners import KINDS, Listeners
from holdfast.adapters.telemetry.logs import Log, logged
from holdfast.authoring.hook import Hook, has_on
from holdfast.ports.facts import Fact

_ALL = frozenset(KINDS)


class HookListener:
    """See the module."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self.name: str = type(hook).__name__

    def wanted(self) -> frozenset[type[Fact]]:
        return _ALL

    def on(self, fact: Fact) -> None:
        self._hook.on(fact)


def heard_by(hooks: Sequence[Hook], log: Log | None = None) -> Listeners:
    """The telemetry of an app: the log, and the hooks that listen."""
    return logged([HookListener(hook) for hook in hooks if has_on(hook)], log)
