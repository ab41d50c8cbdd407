"""`holdfast worker`: a worker as a process.

The first SIGTERM, SIGINT or SIGHUP stops it gracefully: it claims nothing more and releases runs as their steps end,
within the grace time. A second one ends it at once, and its runs wait until its lease expires. The handlers are
Python's own, not the event loop's, so that they work while the author's code blocks the loop.

With `--processes` this process becomes a supervisor, and each process that it forks continues here as a worker.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import click
from msgspec.structs import replace

from holdfast.app import App
from holdfast.cli.commands.tokens import token_file
from holdfast.cli.django_project import set_up_project
from holdfast.cli.logs import LOG, LogFormat, configure
from holdfast.cli.parameters import duration
from holdfast.cli.root import HoldfastCommand
from holdfast.cli.stop_requests import StopRequests
from holdfast.cli.supervisor import Supervisor
from holdfast.cli.targets import CommandError, add_folder, app_to_serve, refuse_private
from holdfast.config import Loaded, load
from holdfast.config.addresses import without_secrets
from holdfast.core.plurals import counted
from holdfast.django import close_connections
from holdfast.doors import web
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.stores import missing_store

LAST_PORT = 65535

THREADS_END = 1.0
"""Seconds that threads get after the worker has stopped; bodies that never end are left behind."""


@click.command("worker", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Queue to serve. Repeatable. [default, and those the app declares]",
)
@click.option(
    "-c", "--concurrency", type=click.IntRange(min=1), metavar="N", help="Maximum number of runs at a time. [100]"
)
@click.option("-p", "--processes", type=click.IntRange(min=1), metavar="N", help="Supervise N worker processes.")
@click.option("--id", metavar="ID", help="Id of the worker; restarted with it, it resumes its runs at once.")
@click.option("--ttl", type=duration, help="Lease: how long a silent worker keeps its runs. [15s]")
@click.option("--poll", type=duration, help="Poll interval. [1s]")
@click.option("--grace", type=duration, help="How long step bodies may keep running after a stop. [30s]")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--json", "is_json", is_flag=True, help="Same as --log-format json.")
@click.option("--http", "address", metavar="HOST:PORT", help="Serve health, readiness and metrics at this address.")
@click.option("--django", "is_django", is_flag=True, help="Set up the Django project first. [if manage.py is here]")
@click.option("--paranoid", is_flag=True, help="Replay each run whenever it parks, and compare (for development).")
@click.option("--line", type=int, hidden=True, help="Of `holdfast dev`: its line to this process.")
def command(
    target: str | None,
    queues: tuple[str, ...],
    concurrency: int | None,
    processes: int | None,
    id: str | None,
    ttl: timedelta | None,
    poll: timedelta | None,
    grace: timedelta | None,
    log_format: LogFormat,
    log_level: str,
    is_json: bool,
    address: str | None,
    is_django: bool,
    paranoid: bool,
    line: int | None,
) -> int:
    """Run a worker of the app until SIGTERM, SIGINT (Ctrl-C) or SIGHUP.

    Without MODULE:APP the configuration names the app, or the folders whose workflows are found and served. Options
    override `[worker]` and `[leases]`; defaults are in brackets. The first signal lets running steps end and releases
    the runs; a second one exits at once. The log goes to standard error, one line for each event.
    """
    log_format = "json" if is_json else log_format
    formatter = configure(log_format, log_level)
    given = {"worker.id": id, "worker.concurrency": concurrency, "worker.queues": queues or None}
    flags = {**given, "leases.ttl": ttl, "worker.poll": poll, "worker.grace": grace}
    try:
        loaded = load(flags=flags)
        joined = None
        if processes is not None:
            _check_last(address, processes)
            outcome = Supervisor(processes).run()
            if isinstance(outcome, int):
                return outcome
            joined = outcome
            loaded = load(flags={**flags, "worker.id": numbered_id(loaded.settings.worker.id, joined.number)})
        requests = StopRequests(formatter, loaded.settings.leases.ttl)
        requests.install()
        if joined is not None or line is not None:
            requests.follow(joined.line if joined is not None else socket.socket(fileno=line))
        app = _app(target, loaded, is_django=is_django)
        if joined is not None:
            refuse_private(app.url)
        if paranoid:
            app.settings = replace(app.settings, paranoid=True)
        place = None if address is None or joined is None else next_address(address, joined.number)
        return asyncio.run(_serve(app, requests, loaded, place or address))
    except (HoldfastError, CommandError) as error:
        if log_format != "json":
            raise
        LOG.error("%s", error, extra={"fact": "failed"})
        return 1


def numbered_id(id: str, number: int) -> str:
    """The id of a supervised process. It is the same after a restart, so that its runs are free at once."""
    return f"{id or f'{{hostname}}-{os.getppid()}'}-{number}"


def next_address(address: str, number: int) -> str:
    """Where the figures of one of the processes are: each next one has the next port; 0 is a free port for each."""
    host, port = web("server").parse_address(address)
    at = port + number - 1 if port else 0
    if at > LAST_PORT:
        raise InvalidInput(f"--http {address}: worker process {number} would need port {at}. Choose a lower one.")
    return f"[{host}]:{at}" if ":" in host else f"{host}:{at}"


def _check_last(address: str | None, processes: int) -> None:
    if address is not None:
        next_address(address, processes)


def _app(target: str | None, loaded: Loaded, *, is_django: bool) -> App:
    """The app to serve; of a Django project, after the project is set up."""
    place = loaded.folder if loaded.settings.app and not target else Path.cwd()
    add_folder(place)
    is_django = set_up_project(place, is_asked=is_django)
    app = app_to_serve(target, loaded)
    _check(app, target or loaded.settings.app or "what was found")
    if is_django:
        close_connections(app)
    return app


async def tell_of_new_store(url: str) -> None:
    """Says that the worker creates a store: started in the wrong folder it would silently serve an empty one."""
    if url.startswith("sqlite:") and not url.endswith("/:memory:") and await missing_store(url):
        text = "creating a new, empty store: there is none at %s yet. If there should be one, is this the right folder?"
        LOG.warning(text, without_secrets(url), extra={"fact": "new store"})


async def _serve(app: App, requests: StopRequests, loaded: Loaded, address: str | None) -> int:
    await tell_of_new_store(app.url)
    settings = loaded.settings
    worker_settings = settings.worker
    threads = ThreadPoolExecutor(thread_name_prefix="holdfast-io")
    asyncio.get_running_loop().set_default_executor(threads)
    async with app.worker(
        id=worker_settings.id or None,
        concurrency=worker_settings.concurrency,
        queues=worker_settings.queues if loaded.is_given("worker.queues") else None,
        ttl=settings.leases.ttl,
        poll=worker_settings.poll,
        grace=worker_settings.grace,
    ) as worker:
        async with _figures(app, loaded, address):
            requests.serving()
            name = await requests.wait()
        held = len(worker.engine.sessions)
        LOG.info(
            "worker %s: stopping (%s), %s still held; a second signal exits at once",
            worker.options.id,
            name,
            counted(held, "run"),
            extra={"fact": "stopping", "worker": worker.options.id},
        )
    threads.shutdown(wait=False, cancel_futures=True)
    _leave_threads_behind()
    return 0


@asynccontextmanager
async def _figures(app: App, loaded: Loaded, address: str | None) -> AsyncGenerator[None]:
    """Serves health, readiness and figures beside the worker. It stops before the worker does."""
    if address is None:
        yield
        return
    server, settings = web("server"), loaded.settings.http
    host, port = server.parse_address(address)
    options = {"allowed_hosts": settings.allowed_hosts, "secret": settings.session_key, "is_whole": False}
    async with server.served(app, host, port, token_file(loaded), **options) as serving:
        LOG.info("health, readiness and metrics are at %s", serving.url, extra={"fact": "http"})
        yield


def _check(app: App, target: str) -> None:
    if app.registry.is_empty:
        raise CommandError(f"{target} serves no workflow: name them in App(workflows=[…])")
    if app.url.startswith("memory:"):
        LOG.warning("%s: the store is memory://, which no other process can reach", target)


def _leave_threads_behind() -> None:
    """Leaves threads behind that never end: a thread cannot be ended from outside, and the process must not wait for
    it."""
    until = time.monotonic() + THREADS_END
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0, until - time.monotonic()))
    stuck = [x.name for x in threading.enumerate() if x is not threading.current_thread() and not x.daemon]
    if stuck:
        LOG.warning("left behind, still busy: %s: %s", counted(len(stuck), "thread"), ", ".join(sorted(stuck)))
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)
