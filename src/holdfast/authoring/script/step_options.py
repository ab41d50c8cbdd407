"""The options of `@step(…)`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from holdfast.authoring.limit import AnyLimit
from holdfast.authoring.script.definition_errors import check_raises
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.retry import Retry
from holdfast.core.specs import InputKept
from holdfast.errors import DefinitionError

Raises = type[Exception] | tuple[type[Exception], ...]


class StepOptions:
    """The options of a step, before its annotations are read."""

    __slots__ = (
        "compare",
        "executor",
        "input",
        "limit_wait",
        "limits",
        "name",
        "once",
        "raises",
        "retry",
        "timeout",
        "tx",
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        once: bool = False,
        tx: bool = False,
        raises: Raises = (),
        executor: Literal["thread", "process"] | None = None,
        limits: Sequence[AnyLimit] = (),
        limit_wait: Duration | None = None,
        compare: bool = True,
        input: InputKept = "keep",
    ) -> None:
        self.name: str | None = check_name(name, "the name of a step") if name is not None else None
        self.retry: Retry | None = Retry(retry) if isinstance(retry, int) else retry
        self.timeout: timedelta | None = (
            parse_duration(timeout, what="timeout= of a step") if timeout is not None else None
        )
        self.once: bool = once
        self.tx: bool = tx
        self.raises: tuple[type[Exception], ...] = check_raises(raises, "@step")
        self.executor: Literal["thread", "process"] | None = executor
        if not isinstance(limits, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"@step(limits=…) takes a list of limits, not {limits!r}: limits=[{limits!r}]")
        self.limits: tuple[AnyLimit, ...] = tuple(limits)
        self.limit_wait: timedelta | None = (
            parse_duration(limit_wait, what="limit_wait= of a step") if limit_wait is not None else None
        )
        self.compare: bool = compare
        self.input: InputKept = input
        if input not in ("keep", "hash"):
            raise DefinitionError(
                f'@step(input={input!r}): use "keep" to record the arguments, "hash" to record a hash'
            )
        if not isinstance(compare, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"@step(compare={compare!r}): use True or False")
        if limit_wait is not None and not self.limits:
            raise DefinitionError("@step(limit_wait=…) goes with limits=[…]")
        if once and self.retry is not None and self.retry != Retry.none:
            raise DefinitionError("@step(once=True) is tried once: leave out retry=, or give Retry.none")
        if tx and once:
            raise DefinitionError("@step(tx=True) is exactly once already: leave out once=")
        if tx and executor == "process":
            raise DefinitionError("@step(tx=True) shares a transaction of its worker: leave out executor='process'")
