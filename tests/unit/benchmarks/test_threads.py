"""Profiles of single threads, on every version of Python."""

from __future__ import annotations

import threading

import pytest

from benchmarks.threads import IS_PER_THREAD, Compiled, ThreadProfile, Traced

KINDS = [Traced, Compiled] if IS_PER_THREAD else [Traced]


def once() -> None:
    """What the profiles look for."""


def busy() -> None:
    sum(range(500_000))


@pytest.mark.parametrize("kind", KINDS)
def test_each_thread_has_a_profile_of_its_own(kind: type[Traced | Compiled]) -> None:
    """Promise: threads that are profiled at once count their own calls and their own processor time."""
    meeting, one_at_a_time = threading.Barrier(2), threading.Lock()  # Python refuses to install two profiles at once
    profiles: list[ThreadProfile] = [kind(), kind()]

    def work(number: int) -> None:
        with one_at_a_time:
            profiles[number].enable()
        meeting.wait()
        for _ in range(number + 1):
            once()
        busy()
        with one_at_a_time:
            profiles[number].disable()

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, profile in enumerate(profiles):
        found = {place[2]: (calls, own) for place, calls, own in profile.entries()}
        assert found["once"][0] == number + 1
        assert sum(own for _, own in found.values()) > 0.002
