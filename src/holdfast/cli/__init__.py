"""The command line: a client like any other, and the process of a worker.

::

    root ──▶ commands/ (a module per command) ──▶ demo/ (what `holdfast demo` shows)
                 │
       ┌─────────┼──────────────────────────────┐
    targets   options · parameters      output (terminal · plain lines · JSON)    logs (text · JSON)
       │                                        │                                   │
    discovery                                   └────────────── escapes ────────────┘

Nothing here knows SQL. What comes from users' data passes `escapes` before it reaches a terminal or a log. Commands
import what they need when they run, so that `holdfast --help` stays light.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the `holdfast` command and exits with its exit code, even when it is interrupted early."""
    import holdfast

    if "App" not in getattr(holdfast, "__all__", ()):
        from holdfast.extras import DISTRIBUTION, namesake_problem

        sys.exit(f"holdfast: {namesake_problem() or f'the package {DISTRIBUTION} is damaged; install it again'}")
    try:
        from holdfast.cli.root import run

        run(arguments)
    except KeyboardInterrupt:  # before the command could begin, or after it had ended
        sys.exit(INTERRUPTED)
