"""Finds what a workflow's code must not read: the clock, randomness, the environment, files, addresses.

Two checks: while a program runs, a profile function sees each call of the author's code (not those of libraries or
Holdfast); and the compiled code shows whether it uses `id()` or `hash()`, which built-in functions call invisibly.
"""

from __future__ import annotations

import builtins
import datetime as dt
import dis
import io
import os
import pathlib
import random
import secrets
import site
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.functions import function_behind, is_a
from holdfast.authoring.script.named import named_by

NOW = "use `now()`, which is the time of the turn and the same on replay"
CHANCE = "use `rng()`, which gives the same numbers on replay"
IDS = "use `uuid4()` of holdfast, which is the same on replay"
ENVIRONMENT = "read it in a step, or give it as an argument: after a restart it may differ"
OUTSIDE = "do it in a step: its outcome is journaled"
THREADS = "use a step (`await asyncio.to_thread(step, …)`), or asyncio's tasks"
ADDRESSES = "addresses and hashes differ in every process: use a key of your own"

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime")
_BUILT_IN: dict[int, tuple[str, str]] = {
    **{id(getattr(time, name)): (f"time.{name}()", NOW) for name in _CLOCKS},
    id(os.urandom): ("os.urandom()", CHANCE),
    id(os.getpid): ("os.getpid()", ENVIRONMENT),
    id(os.listdir): ("os.listdir()", OUTSIDE),
    id(os.stat): ("os.stat()", OUTSIDE),
    id(io.open): ("open()", OUTSIDE),
}
_BUILT_IN_NAMES = {"time", "time_ns", "open", *_CLOCKS, "urandom", "getpid", "listdir", "stat"}
_TODAY = {"now", "utcnow", "today"}
_GENERATOR: object = vars(random)["_inst"]


def _codes() -> dict[CodeType, tuple[str, str]]:
    found: dict[CodeType, tuple[str, str]] = {}

    def add(owner: Any, names: Iterable[str], prefix: str, advice: str) -> None:
        for name in names:
            code = getattr(getattr(owner, name, None), "__code__", None)
            if isinstance(code, CodeType):
                found[code] = (f"{prefix}{name}()", advice)

    add(uuid, ("uuid1", "uuid4"), "uuid.", IDS)
    add(secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow"), "secrets.", CHANCE)
    add(os, ("getenv", "walk"), "os.", ENVIRONMENT)
    reads = (
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "open",
        "exists",
        "is_file",
        "iterdir",
        "glob",
        "stat",
    )
    add(pathlib.Path, reads, "Path.", OUTSIDE)
    add(threading.Thread, ("start",), "Thread.", THREADS)
    add(subprocess, ("run", "check_output"), "subprocess.", OUTSIDE)
    add(socket, ("create_connection", "getaddrinfo"), "socket.", OUTSIDE)
    return found


def _methods_of(owner: type[Any]) -> dict[CodeType, str]:
    public = {name: getattr(owner, name) for name in vars(owner) if not name.startswith("_")}
    return {method.__code__: name for name, method in public.items() if hasattr(method, "__code__")}


_CODES = _codes()
_CHANCE = _methods_of(random.Random)
_READS: list[Any] = [vars(type(os.environ))["__getitem__"], vars(Mapping)["get"], vars(Mapping)["__contains__"]]
_ENVIRONMENT: set[CodeType] = {function.__code__ for function in _READS}


class Watch:
    """Watches the code of workflows while it runs; `told` is called with what was read, where, and what to do."""

    def __init__(self, told: Callable[[str, str], None]) -> None:
        self.told = told
        self._depth = 0
        self._previous: Any = None

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._previous = sys.getprofile()
            threading.setprofile(self._event)  # a sync workflow runs in a thread
            sys.setprofile(self._event)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            sys.setprofile(self._previous)
            threading.setprofile(self._previous)

    def _event(self, frame: FrameType, event: str, arg: Any) -> None:
        caller: FrameType | None = frame
        if event == "c_call":
            found = _built_in(arg)
        elif event == "call":
            found, caller = _python(frame), frame.f_back
        else:
            return
        if found is None or caller is None or not is_authors(caller.f_code) or find_program() is None:
            return
        name, advice = found
        self.told(f"the workflow calls {name} ({caller.f_code.co_filename}:{caller.f_lineno})", advice)


def _built_in(function: Any) -> tuple[str, str] | None:
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if name in _TODAY and isinstance(owner, type) and issubclass(owner, dt.date):
        return f"{owner.__name__}.{name}()", NOW
    if owner is _GENERATOR:
        return f"random.{name}()", CHANCE
    return _BUILT_IN.get(id(function)) if name in _BUILT_IN_NAMES else None


def _python(frame: FrameType) -> tuple[str, str] | None:
    code = frame.f_code
    found = _CODES.get(code)
    if found is not None:
        return found
    drawn_from = frame.f_locals.get("self") if code in _CHANCE else None
    if drawn_from is _GENERATOR or isinstance(drawn_from, random.SystemRandom):
        return f"random.{_CHANCE[code]}()", CHANCE
    if code in _ENVIRONMENT and frame.f_locals.get("self") is os.environ:
        return "os.environ", ENVIRONMENT
    return None


_FOLDERS: set[str] = {*sysconfig.get_paths().values(), *site.getsitepackages(), str(Path(os.__file__).parent)}
_LIBRARIES = tuple(str(Path(x).resolve()) for x in (*(_FOLDERS - {sys.prefix}), str(Path(__file__).parents[2])))
_known: dict[str, bool] = {}


def is_authors(code: CodeType) -> bool:
    """Whether the code is the author's: not Python's, not Holdfast's, not installed."""
    name = code.co_filename
    if name not in _known:
        _known[name] = not name.startswith("<frozen") and not str(Path(name).resolve()).startswith(_LIBRARIES)
    return _known[name]


def addresses_used(functions: Iterable[Callable[..., Any]]) -> list[str]:
    """Where the author's functions, and the functions they name, use `id()` or `hash()`."""
    given = list(functions)
    found: list[str] = []
    for function in dict.fromkeys([*given, *(x for x in named_by(given) if _is_plain(x))]):
        code = function.__code__
        if is_authors(code):
            found += [f"the workflow uses {name}() ({code.co_filename}:{line})" for name, line in _addresses(code)]
    return found


def _is_plain(value: Any) -> bool:
    return is_a(value, FunctionType) and function_behind(value) is value


def _addresses(code: CodeType) -> Iterable[tuple[str, int]]:
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None:
            positions = instruction.positions
            line = positions.lineno if positions is not None and positions.lineno is not None else line
        is_built_in = instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and instruction.argval in {"id", "hash"}
        if is_built_in and hasattr(builtins, instruction.argval):
            yield instruction.argval, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _addresses(constant)
