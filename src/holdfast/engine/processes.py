"""`executor="process"`: a sync body in a separate process, which can really be ended.

The child finds the function by the module and name it has here, never by a name from data; arguments and result are
passed as the JSON that is journaled. `main` is the child's side.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import logging
import os
import sys
import threading
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import msgspec

from holdfast.core.failure import Failure, from_exception
from holdfast.errors import NotAllowedHere

if TYPE_CHECKING:
    from holdfast.authoring.script.context import StepScope
    from holdfast.core.commands import RunStep
    from holdfast.core.specs import StepSpec
    from holdfast.ports.transactions import OpenTransaction
    from holdfast.turn.outcome import Outcome

T = TypeVar("T")

GRACE = 2.0
"""Seconds between asking a process to end and ending it."""


class Errand(msgspec.Struct, frozen=True):
    """What the child is told."""

    module: str
    file: str
    name: str
    args: msgspec.Raw
    paths: list[str]
    scope: dict[str, Any]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the child answers."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    failure: Failure | None = None
    is_final: bool = False
    not_before: float | None = None
    limit: str = ""


async def run_in_process(command: RunStep, scope: StepScope) -> Outcome:
    """Runs the body in a fresh process; cancelling this ends the process."""
    errand = msgspec.json.encode(_errand(command, scope))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from holdfast.engine.processes import main; main()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C is for the worker, which lets its bodies end
    )
    try:
        out = await _converse(process, errand)
    except asyncio.CancelledError:
        await _end(process)
        raise
    return _outcome(out, process.returncode)


async def _converse(process: asyncio.subprocess.Process, errand: bytes) -> bytes:
    """Sends the errand and waits for the answer. The pipe stays open: a child that sees it close ends itself."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(errand + b"\n")
        await process.stdin.drain()
    out = await process.stdout.read()
    process.stdin.close()
    await process.wait()
    return out


def _errand(command: RunStep, scope: StepScope) -> Errand:
    function = inspect.unwrap(command.spec.function)
    main = sys.modules.get("__main__")
    is_main = function.__module__ == "__main__"
    return Errand(
        module=function.__module__,
        file=str(getattr(main, "__file__", "") or "") if is_main else "",
        name=function.__qualname__,
        args=msgspec.Raw(command.args),
        paths=[path for path in sys.path if path],
        scope={
            "run": scope.run,
            "workflow": scope.workflow,
            "version": scope.version,
            "key": scope.key,
            "step": scope.step,
            "attempt": scope.attempt,
            "identity": scope.identity,
            "created_at": scope.created_at.isoformat(),
            "attributes": dict(scope.attributes),
        },
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), GRACE)
        except TimeoutError:
            process.kill()
            await process.wait()


def _outcome(out: bytes, code: int | None) -> Outcome:
    from datetime import timedelta

    from holdfast.turn.outcome import Broke, Succeeded

    try:
        answer = msgspec.json.decode(out, type=Answer)
    except msgspec.DecodeError:
        what = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return Broke(Failure(type="ProcessDied", message=f"the step's process ended without an answer ({what})"))
    if answer.failure is None:
        return Succeeded(bytes(answer.value))
    not_before = None if answer.not_before is None else timedelta(seconds=answer.not_before)
    return Broke(answer.failure, answer.is_final, not_before, answer.limit)


# -- the child's side --------------------------------------------------------------------------------------------------


def _find(errand: Errand) -> Any:
    sys.path[:0] = [path for path in errand.paths if path not in sys.path]
    if errand.file:
        spec = importlib.util.spec_from_file_location("__holdfast_main__", errand.file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["__holdfast_main__"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(errand.module)
    found: Any = module
    for part in errand.name.split("."):
        found = getattr(found, part)
    return found


class _Elsewhere:
    """The surroundings of a body whose worker is another process."""

    def resource(self, of: object) -> Any:
        """Opened in the worker's process."""
        self._refuse(f"{of!r}")

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """A step process has no worker loop."""
        work.close()
        self._refuse("put_blob() or get_blob()")

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """A connection of the worker's."""
        self._refuse("transaction()")

    async def put_blob(self, data: bytes) -> str:
        """Kept by the worker's store."""
        self._refuse("put_blob()")

    async def get_blob(self, name: str) -> bytes:
        """Kept by the worker's store."""
        self._refuse("get_blob()")

    async def results(self, runs: Sequence[str]) -> list[bytes]:
        """Read by the worker."""
        self._refuse("batch()")

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Refused: the worker sends heartbeats."""
        self._refuse("heartbeat()")

    def take_progress(self, run: str, key: str) -> bytes | None:
        """Nothing: no progress was noted."""
        return None

    def send_part(self, scope: StepScope, name: str, data: bytes) -> None:
        """Written by the worker."""
        self._refuse("Stream.send()")

    async def flush_parts(self, scope: StepScope) -> None:
        """Written by the worker."""
        self._refuse("Stream.flush()")

    def _refuse(self, what: str) -> NoReturn:
        raise NotAllowedHere(
            f"{what} needs the worker, but this body runs in a separate process: leave out "
            "executor='process', or do this part in another step"
        )


def _work(errand: Errand) -> Answer:
    from holdfast.authoring.script.context import StepScope, running_step
    from holdfast.authoring.script.steps import AnyStep, step
    from holdfast.turn.outcome import classify

    try:
        found = _find(errand)
        spec: StepSpec = cast("AnyStep[..., Any]", found if isinstance(found, AnyStep) else step(found)).spec
        args, kwargs = spec.arguments.decode(errand.args)
    except Exception as error:  # noqa: BLE001 whatever keeps the body from starting is its outcome
        return Answer(failure=from_exception(error), is_final=True)
    scope = msgspec.convert(errand.scope, type=dict[str, Any])
    running_step.set(StepScope(**scope, surroundings=_Elsewhere()))
    try:
        value, _ = spec.result.round_trip(spec.function(*args, **kwargs), f"result of {spec.name}")
    except BaseException as error:  # noqa: BLE001 SystemExit and friends are outcomes too
        broke = classify(error, spec, spec.retry)
        seconds = None if broke.not_before is None else broke.not_before.total_seconds()
        return Answer(failure=broke.failure, is_final=broke.is_final, not_before=seconds, limit=broke.limit)
    return Answer(value=msgspec.Raw(value))


def main() -> None:
    """Reads an errand, runs it, and answers on the original standard output; what the body prints goes to stderr."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    errand = msgspec.json.decode(sys.stdin.buffer.readline(), type=Errand)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    answer = msgspec.json.encode(_work(errand))
    with os.fdopen(answer_to, "wb") as out:
        out.write(answer)
    os._exit(0)


def _end_with_parent() -> None:
    """Ends this process when the worker is gone, which closes our standard input: the answer is not needed then."""
    while os.read(0, 4096):
        pass
    os._exit(1)
