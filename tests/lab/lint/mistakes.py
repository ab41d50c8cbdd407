"""Forty workflows that do not replay. Each names, in its first comment, the rule that finds it, on the line of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import itertools
import os
import platform
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter, defaultdict
from datetime import date, datetime
from pathlib import Path
from random import choice
from time import monotonic as ticks
from typing import Any

import httpx

from holdfast import Signal, sleep, step, workflow

approved = Signal[bool]("approved")
counter = 0
CACHE: dict[str, int] = {}
SEEN: set[str] = set()
numbers = itertools.count()
totals: Counter[str] = Counter()
by_kind: defaultdict[str, list[str]] = defaultdict(list)


class Settings:
    retries = 3


@step
async def charge(cents: int) -> str:
    return f"paid {cents}"


@step
def label(order: str) -> str:
    return order


@workflow
async def child(order: str) -> str:
    return order


@workflow
async def wall_clock(order: str) -> str:
    if time.time() > 1e9:  # clock
        await charge(1)
    return order


@workflow
async def local_now(order: str) -> str:
    return f"{order} {datetime.now()}"  # clock # noqa: DTZ005


@workflow
async def today(order: str) -> str:
    return f"{order} {date.today()}"  # clock # noqa: DTZ011


@workflow
async def renamed_clock(order: str) -> str:
    deadline = ticks() + 5  # clock
    return f"{order} {deadline}"


@workflow
async def blocking_sleep(order: str) -> str:
    time.sleep(0.1)  # clock # noqa: ASYNC251
    return order


@workflow
async def clock_imported_inside(order: str) -> str:
    from time import perf_counter

    return f"{order} {perf_counter()}"  # clock


@workflow
async def dice(order: str) -> str:
    return f"{order} {random.random()}"  # chance


@workflow
async def lots(order: str) -> str:
    return choice([order, "other"])  # chance


@workflow
async def new_id(order: str) -> str:
    return f"{order} {uuid.uuid4()}"  # chance


@workflow
async def token(order: str) -> str:
    return f"{order} {secrets.token_hex(4)}"  # chance


@workflow
async def noise(order: str) -> str:
    return f"{order} {os.urandom(4).hex()}"  # chance


@workflow
async def unseeded(order: str) -> str:
    generator = random.Random()  # chance
    return f"{order} {generator.random()}"


@workflow
async def environment(order: str) -> str:
    return f"{order} {os.environ['HOME']}"  # environment


@workflow
async def getenv(order: str) -> str:
    return f"{order} {os.getenv('REGION', 'eu')}"  # environment


@workflow
async def host(order: str) -> str:
    return f"{order} {socket.gethostname()}"  # environment


@workflow
async def process(order: str) -> str:
    return f"{order} {os.getpid()}"  # environment


@workflow
async def arguments(order: str) -> str:
    return f"{order} {sys.argv[0]}"  # environment


@workflow
async def machine(order: str) -> str:
    return f"{order} {platform.node()}"  # environment


@workflow
async def opens(order: str) -> str:
    with open("prices.txt") as file:  # io # noqa: ASYNC230, PTH123
        return order + file.read()


@workflow
async def reads_path(order: str) -> str:
    folder = Path("prices")
    return order + (folder / "today.txt").read_text()  # io


@workflow
async def downloads(order: str) -> str:
    return order + str(urllib.request.urlopen("http://localhost").status)  # io # noqa: ASYNC210


@workflow
async def asks_http(order: str) -> str:
    async with httpx.AsyncClient() as client:  # io
        return order + str(client)


@workflow
async def runs_program(order: str) -> str:
    return order + str(subprocess.run(["true"], check=True).returncode)  # io # noqa: ASYNC221


@workflow
async def lists_folder(order: str) -> str:
    return order + str(os.listdir("."))  # io # noqa: PTH208


@workflow
async def own_thread(order: str) -> str:
    thread = threading.Thread(target=print)  # threads
    thread.start()
    return order


@workflow
async def own_pool(order: str) -> str:
    with concurrent.futures.ThreadPoolExecutor() as pool:  # threads
        return order + str(pool)


def unsafe(order: str) -> str:
    return order


@workflow
async def plain_function_in_thread(order: str) -> str:
    return await asyncio.to_thread(unsafe, order)  # threads


@workflow
async def set_order(orders: list[str]) -> str:
    for order in set(orders):  # sets
        await child(order)
    return "done"


@workflow
async def set_of_a_name(orders: list[str]) -> list[str]:
    unique = {order.lower() for order in orders}
    return [await child(order) for order in unique]  # sets


@workflow
async def joined_set(left: set[str], right: set[str]) -> str:
    return ", ".join(left | right)  # sets


@workflow
async def by_address(order: str) -> str:
    return f"{order} {id(order)}"  # identity


@workflow
async def by_hash(order: str) -> str:
    return "a" if hash(order) % 2 else "b"  # identity


@workflow
async def forgotten_await(cents: int) -> str:
    charge(cents)  # type: ignore[unused-coroutine]  # unawaited
    return "paid"


@workflow
async def forgotten_name(cents: int) -> str:
    payment = charge(cents)  # unawaited # noqa: F841 # pyright: ignore[reportUnusedVariable]
    return "paid"


@workflow
async def forgotten_wait(order: str) -> str:
    approved.wait()  # type: ignore[unused-coroutine]  # unawaited
    return order


@workflow
async def forgotten_task(cents: int) -> str:
    asyncio.create_task(charge(cents))  # type: ignore[unused-awaitable]  # unawaited # noqa: RUF006
    return "paid"


@workflow
async def blocks_on_plain_step(order: str) -> str:
    return label(order)  # unawaited


@workflow
async def counts(order: str) -> str:
    global counter  # noqa: PLW0603
    counter += 1  # globals
    return f"{order} {counter}"


@workflow
async def caches(order: str) -> int:
    if order not in CACHE:
        CACHE[order] = len(order)  # globals
    return CACHE[order]


@workflow
async def remembers(order: str) -> str:
    SEEN.add(order)  # globals
    return order


@workflow
async def numbered(order: str) -> str:
    return f"{order} {next(numbers)}"  # globals


@workflow
async def default_grows(order: str, seen: list[str] = []) -> int:  # noqa: B006
    seen.append(order)  # globals
    return len(seen)


@workflow
async def class_setting(order: str) -> str:
    Settings.retries += 1  # globals
    return order


@workflow
async def nested_container(order: str) -> str:
    by_kind["order"].append(order)  # globals
    totals[order] += 1  # globals
    return order


def _captured() -> Any:
    calls = [0]

    @workflow
    async def captured(order: str) -> str:
        calls[0] += 1  # globals
        return f"{order} {calls}"

    return captured


captured = _captured()


@workflow
async def swallows(order: str) -> str:
    try:
        await sleep("1h")
    except asyncio.CancelledError:  # cancellation
        return "gone on"
    return order


@workflow
async def catches_all(order: str) -> str:
    try:
        await charge(1)
    except:  # cancellation # noqa: E722
        return "gone on"
    return order


@workflow
async def catches_base(order: str) -> str:
    try:
        await charge(1)
    except (ValueError, BaseException) as error:  # cancellation # noqa: BLE001
        return str(error)
    return order


def stamped(order: str) -> str:
    return f"{order} {datetime.now().year}"  # clock # noqa: DTZ005


@workflow
async def through_a_helper(order: str) -> str:
    return stamped(order)


@functools.cache
def looked_up(order: str) -> float:
    return time.time() + len(order)  # clock


@workflow
async def through_a_cache(order: str) -> float:
    return looked_up(order)


WORKFLOWS = [value for value in list(globals().values()) if hasattr(value, "spec") and hasattr(value, "version")]
