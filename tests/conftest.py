"""What every test shares: where chance comes from, and how async tests run.

One seed decides all chance. It is `HOLDFAST_TEST_SEED`, by default the commit's, `random` for a new one; the header of
a run prints it and so does every failure. `dev.py test` also sets `PYTHONHASHSEED` to it, so that a whole run repeats
exactly; a test about hash order starts a process of its own with another one, since a process cannot change its own.

Under xdist the controller chooses the seed and its workers inherit it through the environment. Every worker must
collect the same list, so parameters never come from a set.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.command import durations, seeds
from tests.command.seeds import SEED
from tests.support import examples

SUITES = "tests/conformance/test_stores.py::Test"


def chosen_seed() -> int:
    """The seed of this run, put into the environment, where xdist's workers and processes that tests start find it."""
    try:
        seed = seeds.chosen()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    os.environ[SEED] = str(seed)
    return seed


def hear_signals() -> None:
    """Processes inherit what is ignored. Under nohup, or in the background of a script, that would be the very signals
    which tests send to the processes they start."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_configure() -> None:
    gc.disable()  # until all tests are collected: nothing of that is garbage
    chosen_seed()
    hear_signals()
    examples.load()
    if "MUTANT_UNDER_TEST" in os.environ and not hasattr(pytest.Item, "_nodeid"):
        # mutmut 3.8 reads a private attribute that pytest 9.2 no longer has.
        setattr(pytest.Item, "_nodeid", property(lambda item: item.nodeid))  # noqa: B010


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    durations.order(config, items)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not go through thousands of tests each time it looks."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    keep_heap_small(item)
    durations.begin(item)


def keep_heap_small(item: pytest.Item) -> None:
    """Every so often what has come to stay is set aside: tests that collect garbage would go through it each time."""
    count = item.session.stash[_TESTS] = item.session.stash.get(_TESTS, 0) + 1
    if count % 25 == 0:
        gc.collect()
        gc.freeze()


_TESTS = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield from durations.measured(item)


def pytest_report_header() -> list[str]:
    hashing = os.environ.get("PYTHONHASHSEED", "random" if sys.flags.hash_randomization else "0")
    return [f"seed: {SEED}={chosen_seed()} PYTHONHASHSEED={hashing}, hypothesis profile: {examples.profile()}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured (`record_property("figure", …)`), and how many cases of the suites each store passed."""
    durations.write(terminalreporter)
    passed = terminalreporter.stats.get("passed", [])
    figures = [
        f"{value} ({report.nodeid})" for report in passed for name, value in report.user_properties if name == "figure"
    ]
    bound = Counter(report.nodeid.split("::")[1] for report in passed if report.nodeid.startswith(SUITES))
    cases = [
        f"conformance: {count} cases hold on {store.removeprefix('Test')}" for store, count in sorted(bound.items())
    ]
    if figures or cases:
        terminalreporter.section("figures")
        for line in (*cases, *figures):
            terminalreporter.write_line(line)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A generator of the test's own: the same for the same seed and test, whatever else runs and in which order."""
    seed = f"{chosen_seed()}:{request.node.nodeid}"
    request.node.add_report_section("setup", "seed", f"rng of this test: random.Random({seed!r})")
    return random.Random(seed)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
