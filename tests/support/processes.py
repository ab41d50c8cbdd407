"""Steps that run in a process of their own: found there by module and name, so they live in a module that is light."""

from __future__ import annotations

import os
import signal
import sys

from holdfast import Permanent, Retry, RetryAfter, current, step


class Refused(Exception):
    """A declared answer."""


@step(executor="process")
def pid_and_text(text: str) -> tuple[int, str]:
    return os.getpid(), text.upper()


@step(executor="process", retry=Retry(3, first="1ms"), raises=Refused)
def ends_by(how: str) -> int:
    """Ends in the way it is told to, until the third attempt."""
    if how == "declared":
        raise Refused("no")
    if how == "permanent":
        raise Permanent("never")
    if current().attempt == 3:
        return 3
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(4)
    if how == "hard exit":
        os._exit(5)
    if how == "later":
        raise RetryAfter(0.001)
    raise ValueError(how)


@step(executor="process", retry=Retry.none, timeout="300ms")
def never_ends(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 the fewer imports, the faster
        file.write(str(os.getpid()))
    signal.pause()
