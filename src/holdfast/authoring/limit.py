"""`Limit`: how many steps run at once, and how often they begin, over all workers of a store.

A definition that knows no app and no store, checked when it is made. A step names its limits (`@step(limits=[api,
customer.by("item.customer")])`); which key an attempt has follows from its own arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from holdfast.core.ids import check_name
from holdfast.core.limit import Demand, Demands, Rule, key_text, make_rule
from holdfast.core.payload import Arguments
from holdfast.errors import DefinitionError, HoldfastError

KeyFunction: TypeAlias = Callable[..., str]


class Limit:
    """A limit on steps: `Limit("api", rate="50/s", burst=10)`, `Limit("customer", at_once=5)`.

    - `rate`: how often attempts begin, such as "50/s", "100/m" or "10/30s"
    - `burst`: how many may begin together after a pause. Default: a tenth of a second's worth, at least 1
    - `at_once`: how many run at the same time

    It holds over all workers of a store, by the store's clock, and for each key by itself: `customer.by("item.id")`.
    """

    def __init__(
        self, name: str, *, rate: str | None = None, burst: int | None = None, at_once: int | None = None
    ) -> None:
        self.name: str = check_name(name, "the name of a limit")
        self.rule: Rule = make_rule(f"Limit({name!r})", rate, burst, at_once)

    def __repr__(self) -> str:
        return f"<limit {self.name}>"

    def by(self, path: str) -> KeyedLimit:
        """The limit with a key for each value of a parameter of the step, or of something in it: "item.customer"."""
        parts = path.split(".") if isinstance(path, str) else []  # pyright: ignore[reportUnnecessaryIsInstance]
        if not parts or not all(part.isidentifier() for part in parts):
            raise DefinitionError(
                f"Limit({self.name!r}).by({path!r}): write the name of a parameter of the step, or a path that begins "
                'with one, such as "item.customer"'
            )
        return KeyedLimit(self, tuple(parts))


class KeyedLimit:
    """A limit, and where in a step's arguments its key is."""

    def __init__(self, limit: Limit, path: tuple[str, ...]) -> None:
        self.limit: Limit = limit
        self.path: tuple[str, ...] = path

    def __repr__(self) -> str:
        return f"<limit {self.limit.name} by {'.'.join(self.path)}>"


AnyLimit: TypeAlias = Limit | KeyedLimit


class LimitUse:
    """The limits of one step, and how their keys are found."""

    def __init__(self, limits: Sequence[AnyLimit], where: str) -> None:
        self._where = where
        self._paths: dict[str, tuple[str, ...]] = {}
        self._functions: dict[str, KeyFunction] = {}
        self.limits: dict[str, Limit] = {}
        for given in limits:
            if not isinstance(given, Limit | KeyedLimit):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DefinitionError(f"{where}: limits=[…] takes limits, not {given!r}: Limit(name, …)")
            limit = given.limit if isinstance(given, KeyedLimit) else given
            if limit.name in self.limits:
                raise DefinitionError(f"{where}: limit {limit.name!r} appears in limits= twice")
            self.limits[limit.name] = limit
            if isinstance(given, KeyedLimit):
                self._paths[limit.name] = given.path

    def compute(self, limit: Limit, function: KeyFunction) -> None:
        """Computes the key of a limit from the step's parameters with the function."""
        if not isinstance(limit, Limit) or self.limits.get(limit.name) is not limit:  # pyright: ignore[reportUnnecessaryIsInstance]
            known = ", ".join(self.limits) or "none"
            raise DefinitionError(f"{self._where}: .limit({limit!r}): not one of the step's limits=[…] ({known})")
        if limit.name in self._functions:
            raise DefinitionError(f"{self._where}: limit {limit.name!r} has a key function already")
        self._functions[limit.name] = function
        self._paths.pop(limit.name, None)

    def check(self, arguments: Arguments) -> None:
        """Refuses paths that the step's parameters cannot have, before anything is served."""
        for name, path in self._paths.items():
            if path[0] not in arguments.names:
                names = ", ".join(arguments.names) or "none"
                raise DefinitionError(
                    f"{self._where}: limit {name!r} is by {'.'.join(path)!r}, but the step has no parameter "
                    f"{path[0]!r}. Its parameters: {names}."
                )
            check_path(arguments.annotation(path[0]), path, f"{self._where}: limit {name!r}")

    def demands(self, arguments: Arguments) -> Demands:
        """The limits and keys that an attempt needs, by its encoded arguments."""

        def of(data: bytes) -> tuple[Demand, ...]:
            args, kwargs = arguments.decode(data)
            bound: Mapping[str, Any] = arguments.bind(args, kwargs)
            return tuple(
                Demand(name, self._key(name, args, kwargs, bound), limit.rule)
                for name, limit in sorted(self.limits.items())
            )

        return of

    def _key(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], bound: Mapping[str, Any]) -> str:
        function = self._functions.get(name)
        if function is not None:
            what = f"{self._where}: the key of limit {name!r}"
            try:
                return key_text(function(*args, **kwargs), what)
            except HoldfastError:
                raise
            except Exception as error:
                raise DefinitionError(f"{what} could not be computed: {type(error).__name__}: {error}") from error
        path = self._paths.get(name)
        if path is None:
            return ""
        what = f"{self._where}: {'.'.join(path)}, the key of limit {name!r},"
        value: Any = bound[path[0]]
        for part in path[1:]:
            value = _part(value, part)
        return key_text(value, what)


def _part(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)


def check_path(hint: Any, path: tuple[str, ...], what: str) -> None:
    """Refuses a path that a parameter of that annotation cannot have. Undeclared types are not checked."""
    for place, part in enumerate(path[1:], 1):
        try:
            info = msgspec.inspect.type_info(hint)
        except TypeError:
            return
        fields = [field.name for field in _fields(info)]
        if not fields and not isinstance(info, _LEAVES):
            return
        if part not in fields:
            raise DefinitionError(
                f"{what} is by {'.'.join(path)!r}, but {'.'.join(path[:place])} has no field {part!r}. "
                f"Its fields: {', '.join(fields) or 'none'}."
            )
        hint = getattr(hint, "__annotations__", {}).get(part)
        if isinstance(hint, str):
            return


_LEAVES: Final = (
    msgspec.inspect.StrType,
    msgspec.inspect.BoolType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BytesType,
    msgspec.inspect.ListType,
)
"""Types without fields. What is not among them and has none may have some: `Any`, a mapping, a union, a user's type."""


def _fields(info: msgspec.inspect.Type) -> Sequence[msgspec.inspect.Field]:
    if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType | msgspec.inspect.TypedDictType):
        return info.fields
    return ()


def all_limits(found: Sequence[tuple[LimitUse, str]]) -> dict[str, Limit]:
    """The limits of these steps, by name. Raises `DefinitionError` if two different ones share a name."""
    limits: dict[str, tuple[Limit, str]] = {}
    for use, where in found:
        for name, limit in use.limits.items():
            known = limits.setdefault(name, (limit, where))
            if known[0].rule != limit.rule:
                raise DefinitionError(
                    f"two limits have the name {name!r} and differ: {known[1]} and {where}. Make one Limit, "
                    "and use it in both places; or rename one."
                )
    return {name: limit for name, (limit, _) in limits.items()}
