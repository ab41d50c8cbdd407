"""Errors as data: what is journaled when a step or a run fails, and how a declared exception is rebuilt.

Making a `Failure` never fails, even if the exception misbehaves (`__str__` that raises, causes in a circle, a million
sub-exceptions), and its size is bounded. Nothing is imported, or looked up, by a name found in data: an exception is
rebuilt only as one of the classes the caller declared, without running its `__init__`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, cast

import msgspec

from holdfast.core.payload import MAX_INLINE, Shape
from holdfast.errors import HoldfastError, NotEncodable, RunFailed, StepFailed

__all__ = [
    "MAX_MESSAGE",
    "MAX_TRACEBACK",
    "NO_DATA",
    "Failure",
    "authored_traceback",
    "from_exception",
    "place_of",
    "rebuild",
    "type_name",
]

HOLDFAST = "holdfast.errors"
"""The module whose errors have bare names, like builtins."""

MAX_MESSAGE = 8 * 1024
MAX_TRACEBACK = 16 * 1024
MAX_NAME = 512
MAX_CHAIN = 10  # causes shown
MAX_FRAMES = 100  # frames shown of each
MAX_MEMBERS = 5  # sub-exceptions shown of a group

_HEAD = "Traceback (most recent call last):\n"
_PLACE = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_OURS = __file__.replace("\\", "/").rpartition("/core/")[0] + "/"  # below it is Holdfast's own code
_PYTHONS = traceback.__file__.replace("\\", "/").rpartition("/")[0] + "/"  # below it is Python's own code
_INSTALLED = ("/site-packages/", "/dist-packages/")
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


class _State(msgspec.Struct):
    """The data from which a declared exception is rebuilt."""

    declared_as: str
    args: list[Any]
    state: dict[str, Any]


_state_shape = Shape[_State](_State, what="exception")


NO_DATA = msgspec.Raw(b"")


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A failure as it is stored.

    `type` is the name for people (module and qualified name; the bare name for builtins). `declared` says that it was
    one of the declared exceptions and that `data` (its arguments and attributes) suffices to rebuild it.
    """

    type: str
    message: str
    traceback: str = ""
    declared: bool = False
    data: msgspec.Raw = NO_DATA


def from_exception(exc: BaseException, *, declared: Sequence[type[BaseException]] = ()) -> Failure:
    """The failure for `exc`; rebuildable if it is an instance of a declared class and survives encoding."""
    name = type_name(type(exc))
    message = _message(exc)
    trace = _traceback(exc)
    chosen = next((cls for cls in type(exc).__mro__ if cls in declared), None)
    if chosen is None:
        return Failure(name, _cut(message, MAX_MESSAGE), trace)
    data, reason = _capture(exc, cast("type[BaseException]", chosen))
    if data is None:
        note = _cut(f" (declared with raises= but its arguments do not come back: {reason})", MAX_MESSAGE // 2)
        return Failure(name, _cut(message, MAX_MESSAGE - len(note.encode())) + note, trace)
    return Failure(name, _cut(message, MAX_MESSAGE), trace, declared=True, data=msgspec.Raw(data))


def place_of(failure: Failure) -> str:
    """File and line where the first error of the traceback was raised, in the author's code; "" if unknown."""
    places = _PLACE.findall(failure.traceback.partition(_HEAD)[2].partition(_HEAD)[0])
    closeness = [_closeness(file) for file, _ in places]
    best = max(closeness, default=0)
    authored = [place for place, close in zip(places, closeness, strict=True) if close == best]
    return ":".join(authored[-1]) if places else ""


def authored_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of the error from the first frame of the author's code on."""
    links: list[TracebackType] = []
    link = error.__traceback__
    while link is not None:
        links.append(link)
        link = link.tb_next
    closeness = [_closeness(one.tb_frame.f_code.co_filename) for one in links]
    wanted = min(2, max(closeness, default=0))
    return next((one for one, close in zip(links, closeness, strict=True) if close >= wanted), None)


def _closeness(file: str) -> int:
    """How likely the author of a workflow wrote this file: 3, or 2 for an installed package, 1 for Python's own code,
    0 for Holdfast's."""
    path = file.replace("\\", "/")
    if path.startswith(_OURS):
        return 0
    if any(part in path for part in _INSTALLED):
        return 2
    return 1 if path.startswith((_PYTHONS, "<frozen ")) else 3


def rebuild(failure: Failure, declared: Sequence[type[BaseException]]) -> BaseException | None:
    """The exception of `failure`, or None if it cannot be rebuilt as one of these declared classes. An instance of a
    subclass becomes the declared base class."""
    if not failure.declared:
        return None
    try:
        stored = _state_shape.decode(failure.data)
        chosen = next((cls for cls in declared if type_name(cls) == stored.declared_as), None)
        return None if chosen is None else _assemble(chosen, stored)
    except Exception:  # noqa: BLE001 data from elsewhere, or a class that changed: the caller has the message
        return None


def type_name(cls: type) -> str:
    """Module and qualified name; the bare name for builtins and for Holdfast's own."""
    module, name = cls.__module__, cls.__qualname__
    if not isinstance(module, str) or module in {"builtins", HOLDFAST}:
        return _cut(_clean(name), MAX_NAME)
    return _cut(_clean(f"{module}.{name}"), MAX_NAME)


# -- declared exceptions -----------------------------------------------------------------------------------------------


def _capture(exc: BaseException, chosen: type[BaseException]) -> tuple[bytes | None, str]:
    """The data that rebuilds `exc` as `chosen`, or nothing and the reason."""
    try:
        data, back = _state_shape.round_trip(_taken_apart(exc, chosen))
        if len(data) > MAX_INLINE:
            return None, f"they take {len(data)} bytes, at most {MAX_INLINE} are kept"
        again = _assemble(chosen, back)
        if type(again) is type(exc) and (again.args != exc.args or _safe_text(again) != _safe_text(exc)):
            return None, "the rebuilt exception has a different message"
        return data, ""
    except NotEncodable as error:
        return None, f"{error.path} is not plain JSON; give it numbers, texts, lists and dicts only"
    except Exception as error:  # noqa: BLE001 whatever the class does, the failure itself must be recorded
        return None, f"{type(error).__name__}: {_safe_text(error)}"


def _taken_apart(exc: BaseException, chosen: type[BaseException]) -> _State:
    """Arguments and attributes as its builtin base class reports them (OSError knows its file name, …)."""
    _, args, *rest = cast("tuple[Any, ...]", _builtin_of(type(exc)).__reduce__(exc))
    state: dict[str, Any] = dict(rest[0] or {}) if rest else {}
    own: Any = object.__getstate__(exc)  # type: ignore[attr-defined,unused-ignore]
    if isinstance(own, tuple):  # (__dict__, __slots__)
        state |= cast("dict[str, Any]", own[1])
    return _State(type_name(chosen), list(args), state)


def _assemble(cls: type[BaseException], stored: _State) -> BaseException:
    """A `cls` with these arguments and attributes. Only the builtin constructor runs."""
    builtin: Any = _builtin_of(cls)
    exc: BaseException = builtin.__new__(cls, *stored.args)
    if type(exc) is not cls:
        raise TypeError(f"{type_name(cls)} makes a {type_name(type(exc))}")
    builtin.__init__(exc, *stored.args)
    for name, value in stored.state.items():
        object.__setattr__(exc, name, value)
    return exc


def _builtin_of(cls: type[BaseException]) -> type[BaseException]:
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


# -- text --------------------------------------------------------------------------------------------------------------


def _message(exc: BaseException) -> str:
    text = _safe_text(exc)
    if not isinstance(exc, BaseExceptionGroup):
        return text
    members = _members(cast("BaseExceptionGroup[BaseException]", exc))
    return f"{text}: {'; '.join(members)}" if members else text


def _members(group: BaseExceptionGroup[BaseException]) -> list[str]:
    """One line for each of the first sub-exceptions."""
    try:
        inside = group.exceptions
        shown = [_cut(f"{type_name(type(each))}: {_safe_text(each)}", 500) for each in islice(inside, MAX_MEMBERS)]
        left = len(inside) - len(shown)
    except Exception:  # noqa: BLE001 a group may override what it is made of
        return []
    return [*shown, f"{left} more"] if left else shown


def _traceback(exc: BaseException) -> str:
    try:
        return _cut_middle(_clean("".join(_chain(exc))), MAX_TRACEBACK)
    except Exception as error:  # noqa: BLE001 a traceback is a courtesy; the failure must be recorded without it too
        return f"(the traceback could not be shown: {type(error).__name__})"


def _chain(exc: BaseException) -> list[str]:
    """The exception and its causes, oldest first, as Python prints them; bounded, and stopping at a cycle."""
    parts: list[str] = []
    seen: set[int] = set()
    link: BaseException | None = exc
    joint = ""
    while link is not None and id(link) not in seen:
        if len(seen) == MAX_CHAIN:
            parts.append("(earlier causes left out)\n" + joint)
            break
        seen.add(id(link))
        parts.append(_one(link) + joint)
        if link.__cause__ is not None:
            link, joint = link.__cause__, _CAUSE
        elif isinstance(link, StepFailed | RunFailed) and link.traceback:  # of a step or child: the frames it left
            parts.append(_clean(link.traceback.rstrip("\n")) + "\n" + _CAUSE)
            link = None
        elif link.__suppress_context__:
            link = None
        else:
            link, joint = link.__context__, _CONTEXT
    return parts[::-1]


def _one(exc: BaseException) -> str:
    lines: list[str] = []
    frames = _without_ours(list(traceback.walk_tb(exc.__traceback__)), is_ours=isinstance(exc, HoldfastError))
    if frames:
        lines.append(_HEAD)
    if len(frames) > MAX_FRAMES:
        half = MAX_FRAMES // 2
        lines += traceback.StackSummary.extract(iter(frames[:half])).format()
        lines.append(f"  ({len(frames) - 2 * half} frames left out)\n")
        frames = frames[-half:]
    lines += traceback.StackSummary.extract(iter(frames)).format()
    lines.append(f"{type_name(type(exc))}: {_cut(_safe_text(exc), MAX_MESSAGE // 2)}\n")
    notes: object = getattr(exc, "__notes__", None)
    if isinstance(notes, list):
        lines += [f"{_safe_text(note)}\n" for note in cast("list[object]", notes)[:MAX_MEMBERS]]
    if isinstance(exc, BaseExceptionGroup):
        lines += [f"  - {member}\n" for member in _members(cast("BaseExceptionGroup[BaseException]", exc))]
    return "".join(lines)


def _without_ours(frames: list[tuple[FrameType, int]], *, is_ours: bool) -> list[tuple[FrameType, int]]:
    """The frames from the author's first one; and up to the author's last one, if the error is Holdfast's own."""
    closeness = [_closeness(frame.f_code.co_filename) for frame, _ in frames]
    authored = [at for at, close in enumerate(closeness) if close >= min(2, max(closeness))]
    if not any(closeness):
        return frames
    return frames[authored[0] : authored[-1] + 1 if is_ours else None]


def _safe_text(value: object) -> str:
    """`str(value)`, even if it raises."""
    try:
        return _clean(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 user code: it may raise anything, SystemExit included
        return f"(its message could not be read: {type(error).__name__})"


def _clean(text: str) -> str:
    """Text that every store accepts: no lone surrogates, no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8: the beginning, and the full size."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    note = f"… ({len(encoded)} bytes in all)"
    return encoded[: limit - len(note.encode())].decode(errors="ignore") + note


def _cut_middle(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8: both ends, the later one longer, since that is where the error is."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    note = f"\n… ({len(encoded)} bytes in all) …\n"
    room = limit - len(note.encode())
    head = room // 3
    return encoded[:head].decode(errors="ignore") + note + encoded[head - room :].decode(errors="ignore")
