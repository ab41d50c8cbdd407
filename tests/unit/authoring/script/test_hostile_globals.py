"""What a workflow's code names may be anything: nothing that Holdfast reads of it can keep a worker from starting."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import pytest
import sqlalchemy
from hypothesis import given

from holdfast import App, resource, step, workflow
from holdfast.authoring.script.definition_errors import check_function, place_of
from holdfast.authoring.script.functions import function_behind
from holdfast.authoring.script.named import named_by
from holdfast.authoring.script.resources import resources_named_by
from holdfast.cli.targets import app_in
from holdfast.errors import DefinitionError
from holdfast.lint import lint
from holdfast.lint.function_source import is_authors
from holdfast.testing.sweep.determinism import addresses_used
from holdfast.testing.sweep.memory import Memory
from holdfast.testing.sweep.reachable import effective_functions, reached, replayed_functions


class AnswersAll:
    """As proxies do whose target decides."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


class RaisesAll:
    """As proxies do outside of the request they belong to."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"working outside of context: {name}")

    def __call__(self) -> None: ...

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Lazy:
    """As Django's lazy objects: whoever asks for the class opens it."""

    @property
    def __class__(self) -> Any:
        raise ConnectionError("nothing to connect to")

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...

    def __call__(self) -> None: ...


class NotABool:
    """As arrays: comparing gives another one, which is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __len__(self) -> int:
        raise TypeError("len() of an unsized object")

    __hash__ = None  # type: ignore[assignment]


class NamesCode:
    """A class that has what functions have."""

    __code__ = property(lambda _: None)
    __wrapped__ = "nothing"
    __globals__ = 7
    __closure__ = 7
    undo_step = 7

    def __call__(self) -> None: ...


class HostileMeta(type):
    def __getattr__(cls, name: str) -> Any:
        raise LookupError(name)


class Hostile(metaclass=HostileMeta):
    pass


def circular() -> None: ...


circular.__wrapped__ = circular  # type: ignore[attr-defined]


class Odd(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise ImportError(f"{self} cannot be imported")

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ImportError("cannot be imported")


def _proxy_of(function: Any) -> Any:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            return getattr(function, name)

        @property
        def __class__(self) -> Any:
            return type(function)

        @__class__.setter
        def __class__(self, kind: Any) -> None: ...

        def __call__(self, *args: Any) -> Any:
            return function(*args)

    return Proxy()


VALUES: list[Callable[[], Any]] = [
    AnswersAll,
    RaisesAll,
    Lazy,
    NotABool,
    NamesCode,
    mock.Mock,
    mock.MagicMock,
    lambda: mock.Mock(spec=helper),
    lambda: mock.create_autospec(helper),
    lambda: NamesCode,
    lambda: Hostile,
    lambda: types.FunctionType,
    lambda: types.MethodType,
    lambda: inspect.isfunction,
    lambda: circular,
    lambda: len,
    lambda: "".join,
    lambda: operator.attrgetter("x"),
    lambda: functools.partial(helper, 1),
    lambda: functools.partial(len),
    lambda: functools.cache(helper),
    lambda: [].append,
    lambda: AnswersAll().anything,
    lambda: _proxy_of(helper),
    lambda: Odd("odd"),
    lambda: NamesCode().__call__,
    lambda: property(helper),
    lambda: staticmethod(helper),
    lambda: types.SimpleNamespace(__wrapped__=NamesCode(), undo_step=7),
    object,
]


def helper(*_: Any) -> None: ...


@resource
def db() -> Any:
    yield 1


def step_body(n: int) -> int:
    _ = v0(), v1(), v2(), theirs.v3.x, theirs.v4.x, v0.x  # type: ignore[name-defined]  # noqa: F821
    return inner(n)  # type: ignore[name-defined, no-any-return]  # noqa: F821


async def flow_body(n: int) -> int:
    _ = v0(), v1(), v2(), theirs.v3.x, theirs.v4.x, theirs.gone, v4[0]  # type: ignore[name-defined]  # noqa: F821
    return await call(n)  # type: ignore[name-defined, no-any-return]  # noqa: F821


def _made(values: list[Any]) -> tuple[Any, Any, types.ModuleType]:
    """A workflow and a step that name these values as globals, in closures and as attributes of a module."""
    module = types.ModuleType("theirs")
    vars(module).update({f"v{number}": value for number, value in enumerate(values)})
    captured = values[0]

    def body(n: int) -> int:
        db()
        return n if captured is None else n + 1

    scope: dict[str, Any] = {**vars(module), "theirs": module, "inner": body, "__name__": "theirs"}
    for template in (step_body, flow_body):
        made = types.FunctionType(template.__code__, scope, template.__name__)
        made.__annotations__ = {"n": int, "return": int}
        scope[template.__name__] = made
    scope["call"] = step(scope["step_body"], name="call")
    return workflow(scope["flow_body"]), scope["call"], module


@given(st.lists(st.sampled_from(VALUES), min_size=1, max_size=5))
def test_nothing_that_code_names_stops_whoever_reads_it(makers: list[Callable[[], Any]]) -> None:
    """Contract: resources are found through the functions that are functions; everything else is passed over."""
    flow, call, module = _made([make() for make in makers])
    assert resources_named_by([flow.function]) == [db]
    assert any(value is call for value in named_by([flow.function]))
    vars(module)["flow"] = flow
    app = App("memory://", workflows=[module])
    specs = reached(flow.spec, app)
    assert [spec.name for spec in specs] == ["flow_body"]
    assert flow.function in replayed_functions(specs)
    assert call.function in effective_functions(specs, ())
    Memory([flow.function, call.function]).restore()
    addresses_used([flow.function])
    lint(app)
    assert all(app_in(value) is None for value in vars(module).values())


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_is_no_function_is_refused_in_a_sentence(number: int) -> None:
    """Contract: whatever is given where a function is expected, the answer is a `DefinitionError`, or it is one."""
    value = VALUES[number]()
    place_of(value)
    is_authors(value)
    behind = function_behind(value)
    assert behind is None or type(behind) is types.FunctionType
    with contextlib.suppress(DefinitionError):
        check_function(value, "@step")
        assert type(value.__code__) is types.CodeType


@pytest.mark.parametrize("name", ["create_engine", "isfunction", "every"])
async def test_a_step_that_names_it_runs(name: str) -> None:
    """Contract: a worker whose step names `sqlalchemy.create_engine`, `inspect.isfunction` or a proxy that answers to
    every name starts, and the step runs."""
    theirs: Any = {"create_engine": sqlalchemy.create_engine, "isfunction": inspect.isfunction}.get(name, AnswersAll())

    @step
    async def save(n: int) -> int:
        return n + 1 if callable(theirs) else n

    @workflow
    async def saving(n: int) -> int:
        return await save(n)

    app = App("memory://", workflows=[saving])
    async with app.worker():
        assert await (await app.start(saving(1))).result(timeout="30s") == 2
