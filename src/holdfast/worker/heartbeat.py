"""The heartbeat: one thread per worker, one row for all its runs, so a blocked event loop does not lose leases.

The same thread looks for the runs of dead workers: a beat that is also a check frees a bounded number of them, and
checks follow each other while there are some. Every beat returns when the next lease of any worker expires, so that a
check comes right then. While workers are alive that moment is always later than the next beat, so no worker checks more
often because of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import msgspec

from holdfast.errors import StoreError
from holdfast.ports.facts import HeartbeatFailed, StoreReachable, StoreUnreachable, Trouble
from holdfast.ports.leases import Beat, Heart
from holdfast.ports.telemetry import Tell
from holdfast.worker.failures import Failures
from holdfast.worker.pulse import Pulse

AGAIN = 0.001
"""One check frees a bounded number of orphans; checks follow each other while there were some."""

LEAST_PAUSE, LONGEST_SPREAD = 0.01, 0.2
"""How long after a lease has expired it is checked: minimum, and maximum random addition, so that the workers of a
fleet do not all check at once."""


class Checks:
    """When to check for the runs of others: regularly, and right after a lease has expired. Knows no clock."""

    def __init__(self, interval: float | None, spread: float) -> None:
        self._interval = float("inf") if interval is None else interval
        self._spread = spread
        self._regular_at = self._expiry_at = float("inf")

    @property
    def are_on(self) -> bool:
        """Whether this worker checks at all."""
        return self._interval != float("inf")

    @property
    def at(self) -> float:
        return min(self._regular_at, self._expiry_at)

    def begin(self, now: float) -> None:
        """Starts; the first regular check is still to come."""
        self._regular_at = now + self._interval

    def learn(self, beat: Beat, now: float, chance: float, *, was_check: bool) -> None:
        """Takes the answer of a beat. `chance` is between 0 and 1."""
        if not self.are_on:
            return
        if was_check:
            self._regular_at = now + (AGAIN if beat.orphaned else self._interval)
        self._expiry_at = float("inf")
        if beat.next_expiry is not None:
            left = max(0.0, (beat.next_expiry - beat.now).total_seconds())
            self._expiry_at = now + left + LEAST_PAUSE + chance * self._spread

    def put_off(self, until: float) -> None:
        """Delays the next check: the store did not answer."""
        self._regular_at = max(self._regular_at, until)
        self._expiry_at = max(self._expiry_at, until)


class Heartbeat:
    """Beats every third of the lease, more often while the store does not answer.

    `check_interval` None: it never checks the runs of others. `also` is called after each beat that the store took; it
    must not wait.
    """

    pulse: type[Pulse] = Pulse
    """Tells a lease manager that the worker is alive; a simulation needs no thread for it."""

    def __init__(
        self,
        heart: Heart,
        ttl: timedelta,
        progress: Callable[[], str],
        on_beat: Callable[[Beat], None],
        *,
        tell: Tell,
        worker: str = "",
        recovery: Callable[[], str] = str,
        check_interval: timedelta | None = timedelta(seconds=5),
        frees: int = 10,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self._heart = heart
        self._ttl = ttl.total_seconds()
        self._interval = self._ttl / 3
        self._checks = Checks(
            None if check_interval is None else check_interval.total_seconds(),
            spread=min(LONGEST_SPREAD, self._interval / 4),
        )
        self._frees = frees
        self._progress = progress
        self._recovery = recovery
        self._on_beat = on_beat
        self._also = also
        self._tell = tell
        self._worker = worker
        self._failures = Failures()
        self._away_since: float | None = None  # when the store first did not answer
        self._beat_at = float("inf")
        self._used = 0.0
        self._heard_at = float("inf")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the lease then expires, or is released."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def leave(self) -> None:
        """Ends the thread without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        pause = self.begin()
        while not self._stop.wait(pause):
            pause = self.beat()
        self.end()

    # -- one beat after the other: the caller waits as long as each says --------------------------------------

    def begin(self) -> float:
        """Seconds until the first beat. For a worker that checks the runs of others it comes at once: another worker's
        lease may have expired already."""
        self._heard_at, self._used = self.time(), self.processor()
        self._beat_at = self._heard_at + (0.0 if self._checks.are_on else self._interval)
        self._checks.begin(self.time())
        return self._pause()

    def beat(self) -> float:
        """One beat. Returns the seconds until the next."""
        is_check = self.time() >= self._checks.at
        sent_at = self.time()
        try:
            beat = self._heart.beat(
                self._progress(),
                recovery=self._recovery(),
                frees=self._frees if is_check else 0,
                takes_back=not self._was_busy(sent_at - self._heard_at),
            )
            self._also()  # who does not reach the store keeps no run from others
        except StoreError as error:
            pause = min(0.5, self._interval / 3)
            self._tell(HeartbeatFailed(self._worker, error, pause, self._failures.again(error)))
            if self._away_since is None:
                self._away_since = sent_at
                self._tell(StoreUnreachable(self._worker, error))
            return self._put_off(pause)
        except Exception as error:  # noqa: BLE001 the thread must not end
            what, again = "heartbeat broke", self._failures.again(error)
            self._tell(Trouble(what, error, worker=self._worker, is_known=False, is_bug=True, failures=again))
            return self._put_off(self._interval)
        self._failures.end()
        if self._away_since is not None:
            self._tell(StoreReachable(self._worker, self.time() - self._away_since))
            self._away_since = None
        if sent_at - self._heard_at >= self._ttl:  # others may have prolonged the lease since
            beat = msgspec.structs.replace(beat, has_lapsed=True)
        self._heard_at, self._used = self.time(), self.processor()
        self._beat_at = self._heard_at + self._interval
        self._checks.learn(beat, self.time(), random.random(), was_check=is_check)
        self._on_beat(beat)
        return self._pause()

    def end(self) -> None:
        self._heart.close()

    def time(self) -> float:
        """Seconds on a clock that cannot be set back."""
        return time.monotonic()

    def processor(self) -> float:
        """Processor seconds that this process has used."""
        return time.process_time()

    def _was_busy(self, gap: float) -> bool:
        """Whether the lease expired because something here blocked every thread, such as a body that holds the GIL. A
        process that was stopped, or a store that did not answer, uses no processor."""
        return gap >= self._ttl and self.processor() - self._used > gap / 2

    def _put_off(self, seconds: float) -> float:
        self._beat_at = self.time() + seconds
        self._checks.put_off(self._beat_at)
        return self._pause()

    def _pause(self) -> float:
        return max(0.0, min(self._beat_at, self._checks.at) - self.time())
