"""`App`: the composition root. It names what is served, reads the environment, and builds the adapters when needed."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from msgspec import UNSET, UnsetType

from holdfast.adapters.telemetry.hooks import heard_by
from holdfast.adapters.telemetry.logs import Log
from holdfast.authoring.handle import Run
from holdfast.authoring.hook import Hook, check_hooks
from holdfast.authoring.queue import Queue, rules_of
from holdfast.authoring.registry import Registry, serve
from holdfast.authoring.schedule import Schedule, definitions_of
from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.resources import Resource
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow, Call, checked_call
from holdfast.client.app_verbs import BatchVerbs, CollectVerbs, QueueVerbs, ScheduleVerbs
from holdfast.client.client import Client
from holdfast.client.client_run import ClientRun
from holdfast.client.holder import ClientHolder
from holdfast.client.pauses import Pauses
from holdfast.client.questions import Questions
from holdfast.client.start_options import IfExists, StartOptions
from holdfast.config import Configuration, load
from holdfast.config.addresses import without_secrets
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.instants import LONGEST_KEPT
from holdfast.core.plurals import counted
from holdfast.core.queue import QueueRules
from holdfast.core.retry import Retry
from holdfast.core.schedule import Definition
from holdfast.core.specs import Settings, check_limits
from holdfast.doors import web
from holdfast.errors import (
    NotAllowedHere,
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunPaused,
    UnknownWorkflow,
)
from holdfast.ports.grants import Grants
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.stores import granting, open_store, schema_of
from holdfast.worker.worker import Worker
from holdfast.worker.worker_options import worker_options

if TYPE_CHECKING:
    from holdfast.client.machine_logs import MachineLogs
    from holdfast.core.manifest import Manifest

__all__ = ["App", "open_store", "schema_of"]

R = TypeVar("R")
T = TypeVar("T")


class App(ClientHolder, Questions, BatchVerbs, CollectVerbs, ScheduleVerbs, QueueVerbs):
    """The workflows to serve and the store that keeps their runs.

    `url` is `sqlite:///path.db`, `postgresql://user@host/database` or `memory://`; default: that of the configuration,
    `$HOLDFAST_URL`, `[store] url` in `holdfast.toml`, else `sqlite:///holdfast.db`. `workflows` are definitions,
    modules, or names of modules; also steps, which flows may call by name. `schedules` start workflows at set times,
    once a worker runs. `queues` limit how many runs begin and how fast, and decide whose come first. `keep` says how
    long ended runs are kept (None: forever; a workflow may set its own), `snapshot_every` and `compact_after` how many
    journal rows of a run lie between two snapshots and before it is compacted: defaults come from `[upkeep]` of the
    configuration. `blobs` says where large payloads are kept: in the "store", in a folder that all workers share
    ("file:///shared/folder"), or in S3 ("s3://bucket/prefix"). `hooks` wrap every step's body and are told what happens
    (`Hook`). `paranoid` replays each run whenever it parks, and pauses one whose code asks for something different (for
    development). `config` is for tests; by default it is found when first needed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        workflows: Iterable[AnyWorkflow[..., Any] | AnyStep[..., Any] | ModuleType | str] = (),
        resources: Iterable[Resource[Any]] = (),
        hooks: Iterable[Hook] = (),
        schedules: Iterable[Schedule[Any]] = (),
        queues: Iterable[Queue] = (),
        step_retry: Retry | None = None,
        step_limit: int | None = 1000,
        cancel_grace: Duration = "5m",
        keep: Duration | UnsetType | None = UNSET,
        snapshot_every: int | UnsetType = UNSET,
        compact_after: int | UnsetType | None = UNSET,
        blobs: str | None = None,
        store: Store | None = None,
        config: Configuration | None = None,
        leases: Grants | None = None,
        paranoid: bool = False,
    ) -> None:
        ClientHolder.__init__(self)
        self.given_url: str | None = url or None
        self._config = config
        self.registry: Registry = Registry()
        self.resources: list[Resource[Any]] = list(resources)
        self.hooks: tuple[Hook, ...] = check_hooks(hooks)
        self._log = Log()
        self.telemetry: Telemetry = heard_by(self.hooks, self._log)
        self.declared: dict[str, Definition] = definitions_of(schedules)
        self.queue_rules: dict[str, QueueRules] = rules_of(queues)
        check_limits(step_limit, snapshot_every, compact_after)
        if keep is not UNSET and keep is not None:
            keep = parse_duration(keep, what="keep", most=LONGEST_KEPT)
        said = {"keep": keep, "snapshot_every": snapshot_every, "compact_after": compact_after}
        self._said: dict[str, Any] = {
            "step_retry": step_retry or Retry(),
            "step_limit": step_limit,
            "cancel_grace": parse_duration(cancel_grace, what="cancel_grace"),
            "paranoid": paranoid,
            **{name: value for name, value in said.items() if value is not UNSET},
        }
        self._blobs = blobs
        self._replaced: dict[int, Any] = {}
        self._given = store
        self._leases = leases
        self._store: Store | None = None
        for one in workflows:
            self.serve(one)

    @property
    def config(self) -> Configuration:
        """The settings in effect: file, environment, defaults."""
        if self._config is None:
            self._config = load().settings
        return self._config

    @functools.cached_property
    def settings(self) -> Settings:
        """Settings for all runs: those given here, else those of the configuration."""
        upkeep = self.config.upkeep
        rows = {"snapshot_every": upkeep.snapshot_every, "compact_after": upkeep.compact_after or None}
        chosen: dict[str, Any] = {"keep": upkeep.keep, **rows, **self._said}
        return Settings(**chosen)

    @property
    def url(self) -> str:
        """The address of the store."""
        return self.given_url or self.config.store.url

    def __repr__(self) -> str:
        return f"<App {without_secrets(self.url)} with {counted(len(self.registry), 'workflow')}>"

    def serve(self, what: AnyWorkflow[..., Any] | AnyStep[..., Any] | ModuleType | str) -> None:
        """Adds a workflow, every workflow of a module, or of the module of that name. Flows may call them, and the
        module's steps, by name."""
        serve(self.registry, what)

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _open(self) -> Client:
        self._store = self._given or await open_store(
            self.url, self.config.store, blobs=self._blobs, telemetry=self.telemetry
        )
        return Client(self._store, self.registry, self.settings.keep, telemetry=self.telemetry)

    async def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None and self._given is None:
            await store.close()

    def worker(
        self,
        *,
        id: str | None = None,
        concurrency: int = 100,
        queues: tuple[str, ...] | list[str] | None = None,
        ttl: Duration | None = None,
        poll: Duration | None = None,
        grace: Duration = "30s",
    ) -> AbstractAsyncContextManager[Worker]:
        """`async with app.worker():` — a worker in this process, for as long as the block lasts.

        It serves the queue "default" and those that the app declares, unless `queues` names others.

        `ttl`, `poll` and how it recovers runs come from the configuration; the other keys of `[worker]` are for the
        process of `holdfast worker`.
        """
        options = worker_options(
            id=id,
            concurrency=concurrency,
            queues=queues,
            declared=self.queue_rules,
            ttl=self.config.leases.ttl if ttl is None else ttl,
            poll=self.config.worker.poll if poll is None else poll,
            grace=grace,
            recovery=self.config.recovery,
            upkeep=self.config.upkeep,
            on_loss=self.config.leases.on_loss,
        )

        @asynccontextmanager
        async def serve() -> AsyncGenerator[Worker]:
            async with self, granting(self._leases, self.config.leases, options.ttl, await self.client()) as grants:
                client = await self.client()
                worker = Worker(
                    client.store,
                    self.registry,
                    self.settings,
                    options,
                    resources=self.resources,
                    replaced=self._replaced,
                    grants=grants,
                    telemetry=self.telemetry,
                    hooks=self.hooks,
                    schedules=self.declared,
                    queues=self.queue_rules,
                )
                await worker.start()
                previous = client.serve(worker)
                pid = os.getpid()
                try:
                    yield worker
                finally:
                    if os.getpid() == pid:  # a forked child has no worker
                        client.serve(previous)
                        await worker.stop()

        return serve()

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def run(self, call: Call[R], *, id: str | None = None, timeout: Duration | None = None) -> R:
        """Like `asyncio.run`: starts the call with its own worker and returns its result. Same id and input: same
        result. Raises what `result()` raises, and `RunPaused` if the run is paused, except by an
        operator: `Stuck` if nothing can wake it."""
        checked_call(call, "app.run")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            call.close()
            raise NotAllowedHere(
                "app.run() under a running event loop (a notebook, or async code): write "
                "`async with app.worker(): print(await (await app.start(call)).result())`"
            )
        try:
            return asyncio.run(self.run_here(call, id=id, timeout=timeout))
        except (RunFailed, RunCancelled, RunPaused, ResultTimeout) as error:
            # The frames of the event loop say nothing about the run.
            raise error.with_traceback(None) from None

    async def run_here(self, call: Call[R], *, id: str | None = None, timeout: Duration | None = None) -> R:
        """`run`, on the running loop."""
        checked_call(call, "app.run")
        if self.registry.find(call.spec.name, call.spec.version) is None:
            raise UnknownWorkflow(
                f"app.run({call.spec.name}(…)): this app does not serve it. Add it: App(workflows=[{call.spec.name}])"
            )
        chosen = secrets.token_hex(12) if id is None else id
        async with self.worker():
            with self._log.raising(chosen):
                run = cast("ClientRun[R]", await self.start(call, id=chosen))
                return await run.result_or_pause(Pauses(self.telemetry), timeout)

    async def start(
        self,
        call: Call[R],
        *,
        id: str | None = None,
        key: str | None = None,
        delay: Duration | None = None,
        deadline: Duration | datetime | None = None,
        queue: str = "default",
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        connection: object | None = None,
        if_exists: IfExists | None = None,
        unique: str | None = None,
        share: str | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        signal: tuple[Channel[T], T] | tuple[Channel[T], T, str] | None = None,
    ) -> Run[R]:
        """Starts a run; it is durable when this returns. The same id, key within 24 h, or unique value returns the
        existing run if its input is the same, and raises `Conflict` if it is not.

        - `id`: names the run for as long as it is kept (see `keep`); then the id is free again
        - `key`: an idempotency key for 24 h
        - `unique`: at most one open run of the workflow has this value; it is free again when the run ends
        - `if_exists`: "return" returns the existing run whatever its input, "reject" raises `Conflict` for any;
          "replace" cancels the open run that has the `unique` value: the new one begins when that has ended
        - `debounce`: starts with the same `unique` value become one run, which begins when none has come for this
          long, with the last input; `max_wait` after the first start at the latest. All get the same run
        - `delay`: begins later
        - `deadline`: ends a run that takes longer; overrides the workflow's own
        - `queue`, `priority`: which workers run it, and its order within its share (higher first)
        - `share`: what it competes as, such as a tenant: shares with runs waiting take turns. Default: its workflow
        - `attributes`: texts to find it by
        - `connection`: joins your open transaction: the run is there when you commit, and never if you roll back. On
          PostgreSQL one of psycopg, asyncpg, SQLAlchemy or Django; on SQLite the one of `app.connection()`
        - `signal`: a signal to send with the start, or now if the run exists: `(approved, True)`. With an id,
          `(approved, True, "msg-1")`, a repeated start sends it once
        """
        _refuse_in_workflow(call)
        how = StartOptions(
            id=id, key=key, delay=delay, deadline=deadline, queue=queue, priority=priority,
            attributes=attributes, connection=connection, if_exists=if_exists, unique=unique, share=share,
            debounce=debounce, max_wait=max_wait, signal=signal,
        )  # fmt: skip
        return await (await self.client()).start(call, how)

    def wake(self) -> None:
        """Makes workers look at once for what was started or sent with `connection=` and is committed by now. Needed
        with connections of psycopg and SQLAlchemy; sessions, Django's and `app.connection()` do it by themselves."""
        if self._store is not None:
            self._store.wake()

    def asgi(
        self, *, tokens: Any = None, authorize: Any = None, allowed_hosts: Iterable[str] | None = None, prefix: str = ""
    ) -> Any:
        """The HTTP API and the page as an ASGI app. Without arguments every request is denied. `tokens`: a token file.
        `authorize`: gets the scope, returns (name, role) or None; may be async. `allowed_hosts`: default loopback."""
        return web("asgi").asgi(self, tokens=tokens, authorize=authorize, allowed_hosts=allowed_hosts, prefix=prefix)

    @overload
    async def get(self, id: str) -> Run[Any]: ...
    @overload
    async def get(self, id: str, workflow: AnyWorkflow[..., R]) -> Run[R]: ...
    async def get(self, id: str, workflow: AnyWorkflow[..., Any] | None = None) -> Run[Any]:
        """The run with that id. Raises `RunNotFound` if there is none."""
        return await (await self.client()).get(id, workflow)

    def logs(self) -> MachineLogs:
        """Keeps the logs of standalone machines in this app's store: `machine.run(…, store=app.logs(), id=…)`."""
        from holdfast.client.machine_logs import MachineLogs

        return MachineLogs(self.client)

    async def compensate(self, id: str) -> Run[list[str]]:
        """Starts the run that undoes what the ended run of a machine left undone; its result names the states."""
        from holdfast.client.compensation import compensate

        return await compensate(await self.client(), id)

    async def publish(self, topic: Channel[T], value: T, *, id: str | None = None) -> list[str]:
        """Sends to every run waiting on the topic now; returns the ids of those it woke. The same value with the same
        `id` counts once for each wait; another value under the id of a message that a run still waits with raises
        `Conflict`."""
        return await (await self.client()).publish(topic, value, id=id)

    async def waiting(self, topic: Channel[Any]) -> list[str]:
        """Ids of the runs waiting on the topic now."""
        return await (await self.client()).watching(topic)

    async def manifest(self, *, observe: int = 20) -> Manifest:
        """What this app can run, as typed values: every workflow with its kind, version, parts and schemas.

        For each script, the newest `observe` runs in the store are read to list the steps it asked for so far; with
        0 the store is not opened.
        """
        from holdfast.client.manifests import check_observe, manifest

        client = await self.client() if check_observe(observe) else None
        return await manifest(self.registry, self.settings.step_retry, client, observe)

    def replace(self, resource: Resource[T], value: T) -> None:
        """Gives steps this value instead of opening the resource. For tests."""
        self._replaced[id(resource)] = value


def _refuse_in_workflow(call: Call[Any]) -> None:
    """Raises `NotAllowedHere` in a workflow, with more advice than any other use of an app there gets."""
    if find_program() is not None and isinstance(call, Call):
        raise NotAllowedHere(
            f"app.start({call.spec.name}(…)) in a workflow would start a new run on every replay: use "
            f"start({call.spec.name}(…))"
        )
