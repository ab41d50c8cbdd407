"""Matches the calls of a later pass with what earlier passes of the run asked for.

Keys follow the order of the calls, and this order changes when results are remembered: of two tasks that call the same
step, one is at once far ahead of the other. So a call is recognised by what it asks for. It takes over what an earlier
pass asked for under its key, if that is the same; otherwise the same request under another key, unless an earlier call
took that.

Arguments may differ from pass to pass although the call is the same: they may contain the time, for example. With a
single task, the position of the call identifies it. With several tasks this is impossible: the call is then a new
request under an unused key. It runs again rather than getting the result of something else.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from holdfast.authoring.script.recorded_turns import same_arguments
from holdfast.core import events as e
from holdfast.core.payload import Arguments, hash_of

if TYPE_CHECKING:
    from holdfast.core.call_keys import Keys
    from holdfast.core.passes import Beginning, Memo


class Earlier:
    """The requests of earlier passes, and which of them this pass has taken over."""

    __slots__ = ("_by_request", "_is_retry", "_memo", "_taken")

    def __init__(self, beginning: Beginning) -> None:
        self._memo = beginning.memo
        self._is_retry = isinstance(beginning.start, e.Started) and bool(beginning.start.retried_from)
        self._taken: set[str] = set()
        self._by_request: dict[tuple[str, bytes | str], deque[str]] = {}
        for key, memo in beginning.memo.items():
            opened = memo.opened
            if isinstance(opened, e.StepScheduled | e.ChildStarted):
                hashed = opened.hashed if isinstance(opened, e.StepScheduled) else ""
                request = (_name_of(opened), opened.blob or hashed or bytes(opened.value))
                self._by_request.setdefault(request, deque()).append(key)

    def key_of(self, key: str, name: str, args: bytes, arguments: Arguments, keys: Keys, *, is_only_task: bool) -> str:
        """The key of a step or child with these arguments; `key` is that of its position."""
        if key in self._taken or not _is_like(self._memo.get(key), name, args, arguments):
            found = self._elsewhere(name, args)
            if found is not None:
                key = found
            elif key in self._taken or (key in self._memo and not is_only_task and not self._is_retry):
                key = keys.fresh(key, self._memo)
        self._taken.add(key)
        return key

    def _elsewhere(self, name: str, args: bytes) -> str | None:
        same = self._by_request.get((name, args)) or self._by_request.get((name, hash_of(args)))
        while same:
            key = same.popleft()
            if key not in self._taken:
                return key
        return None


def _name_of(opened: e.StepScheduled | e.ChildStarted) -> str:
    return opened.workflow if isinstance(opened, e.ChildStarted) else opened.step or opened.key


def _is_like(memo: Memo | None, name: str, args: bytes, arguments: Arguments) -> bool:
    if memo is None or not isinstance(memo.opened, e.StepScheduled | e.ChildStarted):
        return False
    return _name_of(memo.opened) == name and same_arguments(memo.opened, args, arguments)
