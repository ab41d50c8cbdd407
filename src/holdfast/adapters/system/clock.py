"""The clocks of this host.

Wall time is for people, timers and deadlines, and may jump. Leases need seconds that continue during a suspend and
never jump, and an id of the boot they are counted from: after a reboot, leases of the old boot are void.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The clocks of the host this process runs on."""

    __slots__ = ()

    def now(self) -> datetime:
        """Wall time in UTC."""
        return datetime.now(UTC)

    def boot(self) -> tuple[str, float]:
        """The boot id, and the seconds since then, suspend included."""
        return _boot_id(), _since_boot()


@cache
def _boot_id() -> str:
    try:
        return _LINUX_BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return _sysctl("kern.bootsessionuuid") or "unknown boot"


def _since_boot() -> float:
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.clock_gettime(time.CLOCK_MONOTONIC)  # on macOS it counts through sleep


def _sysctl(name: str) -> str:
    """A text value of the BSD kernel; empty on other systems."""
    try:
        import ctypes.util  # not light, and only needed here

        library = ctypes.CDLL(ctypes.util.find_library("c"))
        size = ctypes.c_size_t(256)
        buffer = ctypes.create_string_buffer(size.value)
        failed = library.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, 0)
    except (OSError, AttributeError):
        return ""
    return "" if failed else buffer.value.decode("ascii", "replace")
