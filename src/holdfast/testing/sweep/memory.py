"""What the code of a run keeps outside its journal: globals, closures, defaults, faked resources.

What workflow code names is memory of the process: a killed worker loses it. What only steps and fakes name represents
the outside: it survives, and shows the effects. All of it is restored before each performance, so that all performances
begin alike.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from types import CodeType, ModuleType
from typing import Any, TypeGuard

from holdfast.authoring.script.functions import attributes_of, is_a
from holdfast.core.guards import is_dict, is_list, is_set, is_tuple
from holdfast.testing.sweep.determinism import is_authors

PLAIN = (int, float, complex, str, bytes, bool, type(None), Decimal)
CONTAINERS = (list, dict, set, deque, bytearray)
LONGEST = 300


@dataclass(slots=True)
class Slot:
    """A place that holds a value: a global name, a cell of a closure, the defaults of a function."""

    label: str
    get: Callable[[], Any]
    put: Callable[[Any], None]


@dataclass(slots=True)
class Kept:
    """A slot, the object that was in it, and a copy of what the object held."""

    slot: Slot
    value: Any
    copied: Any
    is_compared: bool = True


class Memory:
    """All the slots that some functions reach, as they were at first."""

    def __init__(self, functions: Iterable[Callable[..., Any]], ignored: Iterable[Any] = (), *, also: Any = ()) -> None:
        self._ignored = {id(value) for value in ignored}
        self._kept: dict[tuple[int, str], Kept] = {}
        self._caches: list[Any] = []
        for function in functions:
            for owner, name, slot in _slots(function):
                self._keep(owner, name, slot)
        for label, value in also:
            self._keep(id(value), label, _fixed(label, value))

    def _keep(self, owner: int, name: str, slot: Slot) -> None:
        if (owner, name) in self._kept:
            return
        value = slot.get()
        if is_a(value, functools._lru_cache_wrapper):  # pyright: ignore[reportPrivateUsage]
            self._caches.append(value)
            return
        try:
            if not is_kept(value):
                return
            copied = _copied(value, {})
            picture(copied)
            shown(copied)
        except Exception:  # noqa: BLE001 what cannot be copied or shown is not followed
            return
        self._kept[owner, name] = Kept(slot, value, copied, id(value) not in self._ignored)

    def __contains__(self, place: tuple[int, str]) -> bool:
        return place in self._kept

    def without(self, other: Memory) -> Memory:
        """These slots without those of the other."""
        left = Memory(())
        left._kept = {place: kept for place, kept in self._kept.items() if place not in other}
        return left

    def now(self) -> Memory:
        """The same slots, as they are at this moment."""
        found = Memory(())
        for place, kept in self._kept.items():
            value = kept.slot.get()
            found._kept[place] = replace(kept, value=value, copied=_copied(value, {}))
        return found

    def unlike(self, other: Memory) -> Memory:
        """The slots whose content differs from the other's."""
        left = Memory(())
        for place, kept in self._kept.items():
            if picture(kept.copied) != picture(other._kept[place].copied):
                left._kept[place] = kept
        return left

    def revert(self, other: Memory) -> None:
        """Restores these slots to what they were when the other was taken."""
        former = Memory(())
        former._kept = {place: other._kept[place] for place in self._kept}
        former.restore()

    def restore(self) -> None:
        """Restores everything to its first state."""
        lives = {id(kept.copied): kept.value for kept in self._kept.values() if not isinstance(kept.copied, PLAIN)}
        for kept in self._kept.values():
            memo: dict[int, Any] = dict(lives)
            memo.pop(id(kept.copied), None)
            kept.slot.put(_refilled(kept.value, _copied(kept.copied, memo)))
        for cache in self._caches:
            cache.cache_clear()

    def pictures(self) -> dict[str, tuple[str, str]]:
        """What each slot holds now: one text for comparing, independent of order, and one for showing."""
        compared = [kept for kept in self._kept.values() if kept.is_compared]
        return {kept.slot.label: (picture(value := kept.slot.get()), shown(value)) for kept in compared}


def _fixed(label: str, value: Any) -> Slot:
    """A slot that always holds the same object."""
    return Slot(label, lambda: value, lambda _: None)


def _slots(function: Callable[..., Any]) -> Iterator[tuple[int, str, Slot]]:
    scope: dict[str, Any] = function.__globals__
    names = _names(function.__code__)
    for name in sorted(names):
        if name in scope:
            yield _global(scope, name, name)
            value = scope[name]
            held = attributes_of(value) if is_a(value, ModuleType) else {}
            if held and is_own_module(str(held.get("__name__"))):
                yield from (_global(held, x, f"{name}.{x}") for x in sorted(names) if x in held)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        label = f"{name} (of {function.__qualname__})"
        yield id(cell), name, Slot(label, functools.partial(_content, cell), functools.partial(_fill, cell))
    for number, value in enumerate(function.__defaults__ or ()):
        if is_a(value, CONTAINERS):
            label = f"a default of {function.__qualname__}"
            yield id(function), f"default {number}", _fixed(label, value)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _fill(cell: Any, value: Any) -> None:
    cell.cell_contents = value


def _global(scope: dict[str, Any], name: str, label: str) -> tuple[int, str, Slot]:
    return id(scope), name, Slot(label, lambda: scope.get(name), lambda value: scope.__setitem__(name, value))


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return {name for name in names if not name.startswith("__")}


def is_own_module(name: str) -> bool:
    """Whether a module is the author's."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or is_authors(compile("", file, "exec"))


def is_kept(value: Any) -> bool:
    """Whether a value can be remembered and put back."""
    kind = _kind(value)
    if issubclass(kind, (*PLAIN, *CONTAINERS, random.Random, itertools.count)):
        return True
    return (
        not issubclass(kind, (type, ModuleType))
        and not callable(value)
        and (is_own_module(kind.__module__) and not kind.__module__.startswith("holdfast"))
        and hasattr(value, "__dict__")
    )


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, itertools.count):
        return _count_again(value)
    return copy.deepcopy(value, memo)


def _count_again(counter: Any) -> Any:
    numbers = re.findall(r"-?\d+", repr(counter))
    return itertools.count(*map(int, numbers))


def _refilled(value: Any, content: Any) -> Any:
    """The same object with that content, if it can be refilled."""
    kind = _kind(value)
    if issubclass(kind, (*PLAIN, itertools.count)):
        return content
    if issubclass(kind, list | bytearray):
        value[:] = content
    elif issubclass(kind, deque):
        value.clear()
        value.extend(content)
    elif issubclass(kind, dict | set):
        value.clear()
        value.update(content)
    elif issubclass(kind, random.Random):
        value.setstate(content.getstate())
    else:
        held = _attributes(value)
        held.clear()
        held.update(_attributes(content))
    return value


def _attributes(value: object) -> dict[str, Any]:
    return value.__dict__


def _kind(value: object) -> type[Any]:
    return type(value)


def picture(value: Any, seen: tuple[int, ...] = ()) -> str:
    """A value as text that is equal for equal contents; the order in a container does not matter."""
    if id(value) in seen:
        return "…"
    within = (*seen, id(value))
    if is_dict(value):
        return "{" + ", ".join(sorted(f"{picture(k, within)}: {picture(v, within)}" for k, v in value.items())) + "}"
    if is_list(value) or is_tuple(value) or is_set(value) or _is_deque(value):
        return "[" + ", ".join(sorted(picture(x, within) for x in value)) + "]"
    if isinstance(value, random.Random):
        return str(hash(value.getstate()))
    kind = _kind(value)
    if hasattr(value, "__dict__") and not callable(value) and not isinstance(value, PLAIN):
        return f"{kind.__name__}({picture(vars(value), within)})"
    return repr(value) if _says_something(kind) else kind.__name__


def _is_deque(value: object) -> TypeGuard[deque[Any]]:
    return isinstance(value, deque)


def _says_something(kind: type[Any]) -> bool:
    own: Any = kind.__repr__
    return own is not object.__repr__


def shown(value: Any) -> str:
    """A value for people, cut short."""
    kind = _kind(value)
    text = repr(value) if _says_something(kind) else f"{kind.__name__} with {vars(value)!r}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
