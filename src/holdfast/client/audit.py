"""The audit log: who did what, one record for each act of a person, on the logger `holdfast.audit`.

Acts on a run are also in its journal with the actor, and `holdfast show` shows them.
"""

from __future__ import annotations

import logging
import platform

AUDIT = logging.getLogger("holdfast.audit")


def audited(actor: str, verb: str, run: str = "", detail: str = "") -> None:
    """Logs who did what."""
    AUDIT.info(
        "%s: %s",
        actor,
        " ".join(part for part in (verb, run, f"({detail})" if detail else "") if part),
        extra={"fact": "audit", "actor": actor, "verb": verb, "run": run},
    )


def this_user() -> str:
    """The user of this process: USER@HOST."""
    import getpass  # not light

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{platform.node() or 'localhost'}"
