"""What a test can do to make a simulated run continue."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.core.doing import Occupation
from holdfast.core.durations import format_duration


def way_on(a: Occupation, now: datetime) -> str:
    """What ends this wait of a run; empty if no call of a test does."""
    left = f"sim.advance({_short(a.until - now)!r})" if a.until is not None and a.until > now else ""
    match a.kind:
        case "signal" | "topic":
            send = f"run.signal({a.name}, …)" if a.kind == "signal" else f"sim.publish({a.name}, …)"
            return f"Send it with {send}" + (f", or let it time out with {left}." if left else ".")
        case "paused":
            return "Fix what it says, then call run.resume()."
        case "step":
            return f"The body of {a.name} has not returned: fake it with sim.use(Fake({a.name}, …))" + (
                f", or let time pass with {left}." if left else ", or let the time pass that it waits for."
            )
        case _:
            return f"Let time pass with {left}." if left else ""


def _short(left: timedelta) -> str:
    """The duration as `advance` takes it, rounded up to whole seconds from one second on."""
    whole = timedelta(seconds=-(-left // timedelta(seconds=1)))
    return format_duration(whole if left >= timedelta(seconds=1) else left).replace(" ", "")
