"""Replays the journal of an undisturbed run in other processes with other hash seeds, which finds dependence on the
order of sets, on values read at import, and on anything else that is specific to one process.

This module is also what those processes run: they read a request from standard input, import the modules it names as
the test did, replay, and print what does not.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
from collections.abc import Iterable
from types import ModuleType, TracebackType
from typing import Any, Self, TypeGuard

import msgspec

from holdfast.authoring.registry import Registry
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.named import named_by
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core import events as e
from holdfast.core.exported import decode_export, encode_export
from holdfast.core.specs import Settings
from holdfast.core.turn import decode_row
from holdfast.testing.journal_replay import problems_of
from holdfast.testing.sweep.stage import Stage

SECONDS = 120.0

INSIDE = "HOLDFAST_SWEEP_REPLAY"
"""Set in the environment of those processes, so that code which sweeps at import does not start more of them."""


class Component(msgspec.Struct, frozen=True):
    """What flows call by that name, and where it is."""

    name: str
    module: str
    path: str


class Request(msgspec.Struct, frozen=True):
    """What another process is asked."""

    paths: list[str]
    modules: list[tuple[str, str]]
    """Names and files. Not a script: importing it would run it."""
    components: list[Component]
    journal: str
    without: list[str]
    """Workflows that are faked: their code is only in the test."""


class Answer(msgspec.Struct, frozen=True):
    """What it found: runs that do not replay, or why it could not try."""

    problems: list[str] = []
    skipped: str = ""


class Elsewhere:
    """Other processes at work; they start at once and are asked for their answers at the end."""

    def __init__(self, stage: Stage, served: Registry, faked: Iterable[str], seeds: Iterable[int]) -> None:
        journal = encode_export(stage.root, stage.journal(), stage.blobs()).decode()
        request = msgspec.json.encode(Request(sys.path, _modules(served), _components(served), journal, sorted(faked)))
        self._processes = [(seed, _begin(seed, request)) for seed in seeds]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the processes."""
        for _, process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def answers(self) -> list[tuple[int, Answer]]:
        """What each found, with its hash seed."""
        return [(seed, _answer(process)) for seed, process in self._processes]


def _modules(served: Registry) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for function in served.bodies():
        module = inspect.getmodule(inspect.unwrap(function))
        if module is not None and module.__name__.partition(".")[0] not in {"holdfast", "__main__"}:
            found[module.__name__] = module.__file__ or ""
    return list(found.items())


def _components(served: Registry) -> list[Component]:
    """What the flows among them call, under the names they use. Their modules are already among those of the bodies."""
    calls = {name for spec in served if spec.style == "flow" for part in spec.parts() for name in part.calls}
    found: list[Component] = []
    for name in sorted(calls):
        function: Any = getattr(served.components.find(name), "function", None)
        if function is not None:
            found.append(Component(name, function.__module__, function.__qualname__))
    return found


def _begin(seed: int, request: bytes) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import {__name__} as elsewhere; elsewhere.main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            INSIDE: "1",
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )
    assert process.stdin is not None
    process.stdin.write(request)
    process.stdin.close()
    process.stdin = None
    return process


def _answer(process: subprocess.Popen[bytes]) -> Answer:
    try:
        said, complained = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Answer(skipped=f"another process did not answer within {SECONDS:g} s")
    try:
        return msgspec.json.decode(said.rpartition(b"\n")[2], type=Answer)
    except msgspec.DecodeError:
        last = complained.decode(errors="replace").strip().rpartition("\n")[2]
        return Answer(skipped=f"another process could not replay the run: {last}")


def _imported(name: str, file: str) -> ModuleType:
    """The module, by its name or, as pytest may have done, by its file."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if not file:
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be imported from {file!r}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(data: bytes) -> Answer:
    """The other process's side."""
    request = msgspec.json.decode(data, type=Request)
    try:
        modules = [_imported(name, file) for name, file in request.modules]
    except Exception as error:  # noqa: BLE001 whatever an import raises, it is said
        return Answer(skipped=f"another process cannot import the workflow's module: {type(error).__name__}: {error}")
    _, rows, blobs = decode_export(request.journal.encode(), "the journal")
    registry = _registry(modules, request.components)
    for row in rows:
        for event in decode_row(row).events if row.ordinal == 1 else ():
            if isinstance(event, e.Started) and event.style == "flow":
                registry.learn(blobs[event.code], is_served=True)
    found = problems_of("another process", rows, blobs, registry, Settings())
    known = [problem for problem in found if not problem.is_unknown]
    unknown = [problem.why for problem in found if problem.is_unknown and not _is_faked(problem.why, request.without)]
    return Answer([problem.why for problem in known], "; ".join(unknown))


def _registry(modules: Iterable[ModuleType], components: Iterable[Component]) -> Registry:
    """What these modules define, without flows: the journal has their definitions."""
    registry = Registry()
    values: list[Any] = [value for module in modules for value in vars(module).values()]
    own: list[AnyWorkflow[..., Any]] = [value for value in values if is_a(value, AnyWorkflow)]
    named = named_by(x for one in own for spec in one.specs() for x in (spec.function, *spec.bodies))
    children: list[AnyWorkflow[..., Any]] = [value for value in named if is_a(value, AnyWorkflow)]
    for workflow in (*own, *children):
        for spec in workflow.specs():
            if spec.style != "flow":
                registry.add(spec)
    for one in components:
        found: Any = sys.modules.get(one.module)
        for part in one.path.split("."):
            found = getattr(found, part, None)
        if _is_component(found):
            registry.components.add(found, one.name)
    return registry


def _is_component(value: object) -> TypeGuard[AnyStep[..., Any] | AnyWorkflow[..., Any]]:
    return is_a(value, (AnyStep, AnyWorkflow))


def _is_faked(why: str, names: Iterable[str]) -> bool:
    return any(f"workflow {name}," in why or f"workflow {name} (" in why for name in names)


def main() -> None:
    """Reads a request from standard input and writes the answer to standard output."""
    sys.stdout.write("\n" + msgspec.json.encode(answer(sys.stdin.buffer.read())).decode())
